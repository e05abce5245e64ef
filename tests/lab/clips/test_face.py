"""One steady box a clip, and the crop."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.clips import BadClip, prepare_clip
from phased_lab.clips import face as module
from phased_lab.clips.decoding import decode
from phased_lab.clips.face import Box, cropped, find_face
from videos import write_alignment, write_video


def test_the_box_is_the_median_of_the_largest_detections_and_narrower_and_lower(monkeypatch):
    good, small, wrong = (100, 80, 100, 100), (0, 0, 50, 50), (300, 200, 60, 60)
    detector = Mock(side_effect=[[small, good], [good], [], [wrong], [good, small]])
    monkeypatch.setattr(module, "_cascade", lambda: Mock(detectMultiScale=detector))
    assert find_face(np.zeros((33, 288, 360), np.uint8)) == Box(110, 105, 80)
    assert detector.call_count == 5, "every 8th frame"


def test_an_opencv_without_a_detector_is_named_with_the_one_that_has_it(monkeypatch):
    monkeypatch.delattr("cv2.CascadeClassifier")
    with pytest.raises(ModuleNotFoundError, match=r"needs OpenCV 4, got .* pip install 'opencv-python-headless<5'"):
        find_face(np.zeros((1, 48, 48), np.uint8))


def test_a_clip_needs_a_face_except_for_its_sound(tmp_path):
    files = write_video(tmp_path / "noise.mkv"), write_alignment(tmp_path / "noise.align")
    with pytest.raises(BadClip, match=r"noise.mkv': a clip must show a face"):
        prepare_clip(*files)
    clip = prepare_clip(*files, "audio")
    assert clip.frames.shape == (24, 48, 48)
    assert not clip.frames.any()
    assert clip.mfcc[100].values.any()


def test_video_alone_has_the_times_of_the_sound_that_is_missing(tmp_path, faces):
    whole = prepare_clip(write_video(tmp_path / "whole.mkv"))
    silent = prepare_clip(write_video(tmp_path / "silent.mkv", sound=None), write_alignment(tmp_path / "silent.align"), "video")
    for rate, rows in silent.mfcc.items():
        assert rows.first == whole.mfcc[rate].first
        assert rows.values.shape == whole.mfcc[rate].values.shape
        assert not rows.values.any()


def test_only_what_is_used_must_last_until_the_last_word(tmp_path, faces):
    short, words = write_video(tmp_path / "short.mkv", sound=0.2), write_alignment(tmp_path / "short.align")
    assert prepare_clip(short, words, "video").sentence is not None
    for sense in ("audio", "both"):
        with pytest.raises(BadClip, match="sound must last until the last word ends"):
            prepare_clip(short, words, sense)


@given(left=st.floats(-80, 120), top=st.floats(-80, 120), side=st.floats(0.1, 150))
def test_every_box_gives_48_by_48_pixels_of_the_frame(left, top, side):
    frames = np.random.default_rng(0).integers(50, 60, (2, 60, 90)).astype(np.uint8)
    faces = cropped(frames, Box(left, top, side))
    assert faces.shape == (2, 48, 48)
    assert faces.dtype == np.uint8
    assert 50 <= faces.min() <= faces.max() < 60


def test_a_box_of_48_pixels_is_cut_out_unchanged():
    frames = np.random.default_rng(0).integers(0, 255, (3, 100, 120)).astype(np.uint8)
    assert (cropped(frames, Box(30, 20, 48)) == frames[:, 20:68, 30:78]).all()


def test_the_face_of_a_real_clip_is_found_in_its_middle(grid):
    frames = decode(sorted((grid / "s3").glob("*.mkv"))[3]).frames
    box = find_face(frames)
    assert box is not None
    assert 70 < box.side < 160
    assert 80 < box.left + box.side / 2 < 280
    assert 120 < box.top + box.side / 2 < 240
    still = find_face(frames[:1])
    assert still is not None
    assert abs(still.left - box.left) < 30
