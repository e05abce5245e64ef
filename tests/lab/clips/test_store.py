"""Stored clips: what is prepared is what is loaded."""

import numpy as np
import pytest
import torch

from phased_lab.clips import BadClip, load_clips, prepare, prepare_clip, store
from phased_lab.clips.cepstrum import differences


@pytest.fixture
def made(folder, tmp_path):
    """All clips, prepared."""
    return prepare(folder, tmp_path / "out", workers=1)


@pytest.mark.parametrize("count", [1, 10, 11, 75])
def test_frames_survive_the_mosaic(count):
    phase = np.random.default_rng(0).uniform(0, 6, (count, 1, 1))
    y, x = np.mgrid[:48, :48] / 15
    frames = (128 + 60 * np.sin(x + phase) * np.cos(y - phase)).astype(np.uint8)  # without noise, which WebP keeps well
    image = store.packed(frames)
    assert len(image) < frames.size / 2
    back = store.unpacked(image, count)
    assert back.shape == frames.shape
    assert np.abs(back.astype(int) - frames).mean() < 6


@pytest.mark.parametrize("rate, hop, width", [(100, 10, 5), (25, 40, 3)])
def test_loaded_clips_are_the_prepared_ones(folder, made, rate, hop, width):
    clips = load_clips(made.folder, rate=rate).to("cpu")
    assert clips.names == made.names
    for row, name in enumerate(clips.names):
        speaker, sentence = name.split("/")
        clip = prepare_clip(folder / speaker / f"{sentence}.mkv", folder / "align" / speaker / f"{sentence}.align")
        video, sound = (part.rows(torch.tensor([row])).arrays for part in (clips.video, clips.sound))
        assert video["time"].tolist() == clip.time.tolist()
        assert (video["x"].float() - torch.from_numpy(clip.frames).float()).abs().mean() < 8
        assert (store.read(made.folder, name).frames == video["x"].numpy()).all()
        values, first = clip.mfcc[rate]
        wanted = differences(values.astype(np.float16).astype(np.float32), width)
        assert (sound["x"].numpy() == wanted).all()
        assert sound["time"].tolist() == [hop * (first + m) for m in range(len(wanted))]
        assert clip.sentence is not None
        assert clips.words[row].tolist() == clip.sentence.words.tolist()
        assert clips.spans[row].tolist() == clip.sentence.spans.tolist()
        assert clips.jump[row] == pytest.approx(clip.jump)


def test_single_clips_are_read_without_the_others(made):
    every = load_clips(made.folder)
    store.file_of(made.folder, made.names[1]).unlink()
    some = load_clips(made.folder, [made.names[2], made.names[0]])
    assert some.names == (made.names[2], made.names[0])
    assert torch.equal(some.video.arrays["x"], every.video.rows(torch.tensor([2, 0])).arrays["x"])
    with pytest.raises(ValueError, match="at least one clip"):
        load_clips(made.folder, [])
    with pytest.raises(ValueError, match="rate must be 100 or 25"):
        load_clips(made.folder, rate=50)


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
