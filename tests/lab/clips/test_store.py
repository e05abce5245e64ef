"""Packed clips: what is stored is what is loaded."""

import numpy as np
import pytest
import torch

from phased_lab.clips import BadClip, differences, load_clips, prepare, prepare_clip, store
from phased_lab.clips.mosaic import packed, unpacked


def smooth(count: int, seed: int = 0) -> np.ndarray:
    """Frames without noise, which WebP keeps well."""
    phase = np.random.default_rng(seed).uniform(0, 6, (count, 1, 1))
    y, x = np.mgrid[:48, :48] / 15
    return (128 + 60 * np.sin(x + phase) * np.cos(y - phase)).astype(np.uint8)


@pytest.mark.parametrize("count", [1, 9, 10, 11, 75])
def test_frames_survive_the_mosaic(count):
    frames = smooth(count)
    image = packed(frames)
    assert len(image) < frames.size / 2
    back = unpacked(image, count)
    assert back.shape == frames.shape
    assert np.abs(back.astype(int) - frames).mean() < 6


def test_frames_are_read_where_opencv_is_not_installed(monkeypatch):
    pytest.importorskip("PIL")
    image = packed(smooth(5))
    wanted = unpacked(image, 5)

    def missing(name, what):
        raise ModuleNotFoundError(f"{what} needs {name}")

    monkeypatch.setattr("phased_lab.clips.mosaic.module", missing)
    assert np.abs(unpacked(image, 5).astype(int) - wanted).max() <= 1
    with pytest.raises(ValueError, match="one image in WebP"):
        unpacked(image[:20], 5)


def test_what_is_no_image_is_refused():
    image = packed(smooth(5))
    for bad, count in ((image[:0], 5), (image[:30], 5), (np.zeros(100, np.uint8), 5), (image, 11)):
        with pytest.raises(ValueError, match="one image in WebP"):
            unpacked(bad, count)


def test_loaded_clips_are_the_prepared_ones(folder, tmp_path):
    made = prepare(folder, tmp_path / "out", workers=1)
    clips = load_clips(made.files)
    assert clips.names == made.names
    for row, name in enumerate(clips.names):
        speaker, sentence = name.split("/")
        clip = prepare_clip(folder / speaker / f"{sentence}.mkv", folder / "align" / speaker / f"{sentence}.align")
        begin, end = clips.frame_offset[row : row + 2].tolist()
        assert clips.frame_time[begin:end].tolist() == clip.time.tolist()
        assert (clips.frames[begin:end].float() - torch.from_numpy(clip.frames).float()).abs().mean() < 8
        begin, end = clips.audio_offset[row : row + 2].tolist()
        wanted = differences(clip.mfcc[100].values.astype(np.float16).astype(np.float32))
        assert (clips.audio[begin:end].numpy() == wanted).all()
        assert clips.audio_time[begin:end].tolist() == [10 * (clip.mfcc[100].first + m) for m in range(len(wanted))]
        assert clip.sentence is not None
        assert clips.words[row].tolist() == clip.sentence.words.tolist()
        assert clips.spans[row].tolist() == clip.sentence.spans.tolist()


def test_the_coarse_resolution_has_a_row_every_40_ms(folder, tmp_path):
    made = prepare(folder, tmp_path / "out", workers=1)
    clips = load_clips(made.files, rate=25)
    assert clips.audio.shape[1] == 39
    begin, end = clips.audio_offset[:2].tolist()
    assert clips.audio_time[begin:end].diff().unique().tolist() == [40]
    with pytest.raises(ValueError, match="rate must be 100 or 25"):
        load_clips(made.files, rate=50)


def test_single_clips_are_read_without_the_others(folder, tmp_path):
    made = prepare(folder, tmp_path / "out", workers=1)
    every = load_clips(made.files)
    some = load_clips(made.files, [made.names[2], made.names[0]])
    assert some.names == (made.names[0], made.names[2])
    begin, end = every.frame_offset[2:4].tolist()
    assert (some.frames[int(some.frame_offset[1]) :] == every.frames[begin:end]).all()
    assert every.rows(some.names).tolist() == [0, 2]
    for wrong in (load_clips, lambda _, names: every.rows(names)):
        with pytest.raises(KeyError, match="s9/none"):
            wrong(made.files, ["s9/none"])
    assert every.to("cpu").names == every.names


def test_a_damaged_file_is_named(folder, tmp_path):
    (path, *_) = prepare(folder, tmp_path / "out", workers=1).files
    content = path.read_bytes()
    for bad in (b"", content[:-1], content[:100], b"x" * 1000):
        path.write_bytes(bad)
        with pytest.raises(BadClip, match=r"s1.safetensors.*prepare them again"):
            load_clips([path])
    with pytest.raises(FileNotFoundError):
        load_clips([tmp_path / "none.safetensors"])


def test_a_stored_clip_comes_back_alone(folder, tmp_path):
    made = prepare(folder, tmp_path / "out", ["s1"], workers=1)
    shelf = store.read(made.files[0])
    clip = shelf.clip(1)
    clips = load_clips(made.files)
    begin, end = clips.frame_offset[1:3].tolist()
    assert (clip.frames == clips.frames[begin:end].numpy()).all()
    assert clip.mfcc[25].values.shape[1] == 13
