"""Stored clips: what is prepared is what is loaded."""

import numpy as np
import pytest
import torch

from phased_lab.clips import BadClip, differences, load_clips, prepare, prepare_clip, store
from phased_lab.clips.mosaic import packed, unpacked


@pytest.fixture
def made(folder, tmp_path):
    """All clips, prepared."""
    return prepare(folder, tmp_path / "out", workers=1)


@pytest.mark.parametrize("count", [1, 10, 11, 75])
def test_frames_survive_the_mosaic(count):
    phase = np.random.default_rng(0).uniform(0, 6, (count, 1, 1))
    y, x = np.mgrid[:48, :48] / 15
    frames = (128 + 60 * np.sin(x + phase) * np.cos(y - phase)).astype(np.uint8)  # without noise, which WebP keeps well
    image = packed(frames)
    assert len(image) < frames.size / 2
    back = unpacked(image, count)
    assert back.shape == frames.shape
    assert np.abs(back.astype(int) - frames).mean() < 6


def test_loaded_clips_are_the_prepared_ones(folder, made):
    clips = load_clips(made.folder)
    assert clips.names == made.names
    for row, name in enumerate(clips.names):
        speaker, sentence = name.split("/")
        clip = prepare_clip(folder / speaker / f"{sentence}.mkv", folder / "align" / speaker / f"{sentence}.align")
        begin, end = clips.frame_offset[row : row + 2].tolist()
        assert clips.frame_time[begin:end].tolist() == clip.time.tolist()
        assert (clips.frames[begin:end].float() - torch.from_numpy(clip.frames).float()).abs().mean() < 8
        assert (store.read(made.folder, name).frames == clips.frames[begin:end].numpy()).all()
        begin, end = clips.audio_offset[row : row + 2].tolist()
        wanted = differences(clip.mfcc[100].values.astype(np.float16).astype(np.float32))
        assert (clips.audio[begin:end].numpy() == wanted).all()
        assert clips.audio_time[begin:end].tolist() == [10 * (clip.mfcc[100].first + m) for m in range(len(wanted))]
        assert clip.sentence is not None
        assert clips.words[row].tolist() == clip.sentence.words.tolist()
        assert clips.spans[row].tolist() == clip.sentence.spans.tolist()
        assert clips.jump[row] == pytest.approx(clip.jump)


def test_the_coarse_resolution_has_a_row_every_40_ms(made):
    clips = load_clips(made.folder, rate=25)
    assert clips.audio.shape[1] == 39
    begin, end = clips.audio_offset[:2].tolist()
    assert clips.audio_time[begin:end].diff().unique().tolist() == [40]
    with pytest.raises(ValueError, match="rate must be 100 or 25"):
        load_clips(made.folder, rate=50)


def test_single_clips_are_read_without_the_others(made):
    every = load_clips(made.folder)
    store.file_of(made.folder, made.names[1]).unlink()
    some = load_clips(made.folder, [made.names[2], made.names[0]])
    assert some.names == (made.names[0], made.names[2])
    begin, end = every.frame_offset[2:4].tolist()
    assert (some.frames[int(some.frame_offset[1]) :] == every.frames[begin:end]).all()
    assert every.rows(some.names).tolist() == [0, 2]
    with pytest.raises(KeyError, match="s9/none"):
        every.rows(["s9/none"])
    with pytest.raises(ValueError, match="at least one clip"):
        load_clips(made.folder, [])
    assert every.to("cpu").names == every.names


def test_missing_and_damaged_files_are_named(made, tmp_path):
    path = store.file_of(made.folder, made.names[0])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    for bad in (b"", bytes(content), b"x" * 1000):
        path.write_bytes(bad)
        with pytest.raises(BadClip, match=rf"{path.name}'.* is damaged, or something else. Delete it, and prepare them again"):
            load_clips(made.folder)
    path.unlink()
    with pytest.raises(BadClip, match=rf"{path.name}'.* is missing"):
        load_clips(made.folder)
    (made.folder / "clips.json").write_text("{}")
    with pytest.raises(BadClip, match=r"clips.json': it must be a list of prepared clips"):
        load_clips(made.folder)
    with pytest.raises(FileNotFoundError):
        load_clips(tmp_path)
