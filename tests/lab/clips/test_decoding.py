"""Frames and sound with their own times, and files that are not clips."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from phased_lab.clips import BadClip
from phased_lab.clips.decoding import _checked, _Sound, decode
from videos import FRAMES, HEIGHT, WIDTH, write_video


def test_frames_and_sound_have_the_times_of_the_container(tmp_path):
    clip = decode(write_video(tmp_path / "plain.mkv"))
    assert clip.frames.shape == (FRAMES, HEIGHT, WIDTH)
    assert clip.frames.dtype == np.uint8
    assert clip.time.tolist() == [40 * number for number in range(FRAMES)]
    assert (clip.rate, clip.start, len(clip.audio)) == (16000, 0.0, 16 * 40 * FRAMES)
    assert clip.audio.dtype == np.float32
    assert 0.01 < np.abs(clip.audio).max() < 1


@pytest.mark.parametrize("starts, start", [((0, 30), 30), ((40, 0), -40), ((80, 80), 0)])
def test_time_begins_at_the_first_frame(tmp_path, starts, start):
    clip = decode(write_video(tmp_path / "late.mkv", starts=starts))
    assert clip.time[:3].tolist() == [0, 40, 80]
    assert clip.start == pytest.approx(start, abs=1.5)


def no_text(path):
    """A clip whose language is no text."""
    path.write_bytes(write_video(path).read_bytes().replace(b"und", b"\x80nd"))


NO_CLIPS = {  # how a file is made, and the error
    "an empty file": (Path.touch, "a.mkv': a clip must be a video file"),
    "a language that is no text": (no_text, "a clip must be a video file.*'utf-8' codec"),
    "no sound": (partial(write_video, sound=None), "a.mkv': a clip must have sound"),
    "a quiet stream": (partial(write_video, sound=0.0), "a clip must have sound, got a stream without samples"),
    "one frame": (partial(write_video, frames=1), "at least 2 frames, got 1"),
    "no frames": (partial(write_video, frames=0), "at least 2 frames, got 0"),
    "a film": (partial(write_video, frames=30), "at most 1 s, got more"),
    "a song": (partial(write_video, sound=1.2), "at most 1 s of sound"),
}


@pytest.mark.parametrize("make, message", NO_CLIPS.values(), ids=NO_CLIPS)
def test_what_is_no_clip_is_named(tmp_path, monkeypatch, make, message):
    monkeypatch.setattr("phased_lab.clips.decoding.LONGEST", 1.0)
    make(tmp_path / "a.mkv")
    with pytest.raises(BadClip, match=message) as caught:
        decode(tmp_path / "a.mkv")
    assert caught.value.path == str(tmp_path / "a.mkv")


@pytest.mark.parametrize(
    "sizes, times, message",
    [
        ((48, 48, 48), (0.0, 0.04, 0.04), "times of frames must increase, got 0.040 s after 0.040 s. Copy it again"),
        ((48, 48, 50), (0.0, 0.04, 0.08), "all frames of a clip must have one size, got several. Cut it"),
    ],
)
def test_frames_that_are_no_video_are_named(sizes, times, message):
    frames = [np.zeros((size, size), np.uint8) for size in sizes]
    with pytest.raises(BadClip, match=message):
        _checked("a.mkv", frames, np.array(times), _Sound("a.mkv", None), "video")


@pytest.mark.parametrize("sound", [None, 0.0])
def test_video_alone_needs_no_sound(tmp_path, sound):
    clip = decode(write_video(tmp_path / "a.mkv", sound=sound), "video")
    assert clip.frames.shape == (FRAMES, HEIGHT, WIDTH)
    assert (clip.rate, clip.start, len(clip.audio)) == (16000, 0.0, 16 * 40 * FRAMES)
    assert not clip.audio.any()


@pytest.mark.parametrize("frames", [0, 1])  # one frame, such as the cover of a song, is no video
def test_sound_alone_needs_no_write_video(tmp_path, frames):
    whole = decode(write_video(tmp_path / "whole.mkv"))
    clip = decode(write_video(tmp_path / "heard.mkv", frames=frames), "audio")
    assert clip.time.tolist() == whole.time.tolist()
    assert len(clip.frames) == FRAMES
    assert not clip.frames.any()
    assert (clip.rate, clip.start, len(clip.audio)) == (whole.rate, whole.start, len(whole.audio))


@pytest.mark.parametrize("sense", ["video", "audio"])
def test_what_is_there_is_decoded_though_it_is_not_needed(tmp_path, sense):
    path = write_video(tmp_path / "whole.mkv", starts=(0, 30))
    for one, other in zip(decode(path), decode(path, sense), strict=True):
        assert np.array_equal(one, other)


def test_real_clips_have_75_frames_of_40_ms_and_3_s_of_sound(grid):
    paths = [*sorted((grid / "s1").glob("*.mpg"))[:1], *sorted((grid / "s3").glob("*.mkv"))[:1]]
    assert paths
    for path in paths:
        clip = decode(path)
        assert clip.frames.shape == (75, 288, 360)
        np.testing.assert_allclose(clip.time, 40 * np.arange(75), atol=1e-6)
        assert clip.rate in (44100, 48000)
        assert abs(clip.start) < 10
        assert len(clip.audio) / clip.rate == pytest.approx(2.978, abs=0.01)
