"""Frames and sound with their own times, and files that are not clips."""

import os

import numpy as np
import pytest

from phased_lab.clips import BadClip, decode

FRAMES, HEIGHT, WIDTH = 24, 64, 96


def test_frames_and_sound_have_the_times_of_the_container(tmp_path, video):
    clip = decode(video(tmp_path / "plain.mkv"))
    assert clip.frames.shape == (FRAMES, HEIGHT, WIDTH)
    assert clip.frames.dtype == np.uint8
    assert clip.time.tolist() == [40 * number for number in range(FRAMES)]
    assert (clip.rate, clip.start, len(clip.audio)) == (16000, 0.0, 16 * 40 * FRAMES)
    assert clip.audio.dtype == np.float32
    assert 0.01 < np.abs(clip.audio).max() < 1


@pytest.mark.parametrize("starts, start", [((0, 30), 30), ((40, 0), -40), ((80, 80), 0)])
def test_time_begins_at_the_first_frame(tmp_path, video, starts, start):
    clip = decode(video(tmp_path / "late.mkv", starts=starts))
    assert clip.time[:3].tolist() == [0, 40, 80]
    assert clip.start == pytest.approx(start, abs=1.5)


def test_a_text_an_empty_file_and_no_file_are_named(tmp_path):
    for name, content in (("text.mpg", b"this is a letter\n" * 100), ("empty.mpg", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadClip, match=rf"{name}': a clip must be a video file"):
            decode(tmp_path / name)


def test_what_is_not_a_file_is_an_error_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.mpg")
    for name, message in (("none.mkv", "No such file"), ("", "got a folder"), ("pipe.mpg", "got a pipe")):
        with pytest.raises(BadClip, match=message) as caught:
            decode(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)


def test_a_clip_needs_sound_and_two_frames(tmp_path, video):
    with pytest.raises(BadClip, match=r"silent.mkv': a clip must have sound"):
        decode(video(tmp_path / "silent.mkv", sound=None))
    with pytest.raises(BadClip, match="a clip must have sound, got a stream without samples"):
        decode(video(tmp_path / "quiet.mkv", sound=0.0))
    with pytest.raises(BadClip, match="at least 2 frames, got 1"):
        decode(video(tmp_path / "one.mkv", frames=1))


def test_video_alone_needs_no_sound(tmp_path, video):
    for name, sound in (("silent.mkv", None), ("quiet.mkv", 0.0)):
        clip = decode(video(tmp_path / name, sound=sound), "video")
        assert clip.frames.shape == (FRAMES, HEIGHT, WIDTH)
        assert (clip.rate, clip.start, len(clip.audio)) == (16000, 0.0, 16 * 40 * FRAMES)
        assert not clip.audio.any()


def test_sound_alone_needs_no_video(tmp_path, video):
    whole = decode(video(tmp_path / "whole.mkv"))
    for frames in (0, 1):  # one frame, such as the cover of a song, is no video
        clip = decode(video(tmp_path / f"heard{frames}.mkv", frames=frames), "audio")
        assert clip.time.tolist() == whole.time.tolist()
        assert len(clip.frames) == FRAMES
        assert not clip.frames.any()
        assert (clip.rate, clip.start, len(clip.audio)) == (whole.rate, whole.start, len(whole.audio))
    with pytest.raises(BadClip, match="at least 2 frames, got 0"):
        decode(tmp_path / "heard0.mkv")


@pytest.mark.parametrize("sense", ["video", "audio"])
def test_what_is_there_is_decoded_though_it_is_not_needed(tmp_path, video, sense):
    path = video(tmp_path / "whole.mkv", starts=(0, 30))
    for one, other in zip(decode(path), decode(path, sense), strict=True):
        assert np.array_equal(one, other)


def test_a_film_is_refused_before_it_fills_the_memory(tmp_path, video, monkeypatch):
    monkeypatch.setattr("phased_lab.clips.decoding.LONGEST", 0.5)
    with pytest.raises(BadClip, match="at most 0 s"):
        decode(video(tmp_path / "film.mkv"))
    with pytest.raises(BadClip, match="of sound"):
        decode(video(tmp_path / "song.mkv", frames=3))


def cut(content: bytes, number: int) -> bytes:
    return content[: len(content) * (number % 10) // 10]


def changed(content: bytes, number: int) -> bytes:
    random = np.random.default_rng(number)
    data = np.frombuffer(content, np.uint8).copy()
    data[random.integers(0, len(data), 40)] = random.integers(0, 256, 40)
    return data.tobytes()


@pytest.mark.parametrize("damage", [cut, changed])
def test_a_damaged_file_is_a_clip_or_a_named_error(tmp_path, video, damage):
    content = video(tmp_path / "whole.mkv").read_bytes()
    path = tmp_path / "damaged.mkv"

    def outcome(number: int) -> str | None:
        path.write_bytes(damage(content, number))
        try:
            clip = decode(path)
        except BadClip as error:
            return error.path
        assert (np.diff(clip.time) > 0).all()
        assert damage is changed or len(clip.frames) <= FRAMES
        return None

    assert {outcome(number) for number in range(20)} == {None, str(path)}


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
