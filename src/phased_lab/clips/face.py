"""The face: one box a clip, cropped and scaled to 48 x 48 pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased.lazy import module

SIDE = 48  # pixels of a prepared frame
EVERY = 8  # frames: the detector takes most of the time
CASCADE = "haarcascade_frontalface_alt2.xml"
SMALLEST = 0.2  # of the height of a frame: smaller detections are patterns in the background
# The detector's box has hair and background around the face, and its bottom cuts the chin of an open mouth off. The crop is
# 0.8 as wide and lower by 0.15 of the box: the mouth has a quarter more pixels in each direction, and room around it.
SCALE, DOWN = 0.8, 0.15


class Box(NamedTuple):
    """A square in a frame, in pixels; it may reach beyond the frame."""

    left: float
    top: float
    side: float


def find_face(frames: NDArray[np.uint8]) -> Box | None:
    """Where the face is in a clip.

    OpenCV's Haar cascade is applied to every 8th frame. In each the largest detection is taken; the box is the median of all of
    them, so that the crop does not shake and single wrong detections have no effect.

    Args:
        frames: gray, (F, height, width) uint8.

    Returns:
        The square to crop, from the eyebrows to below the chin: 0.8 of the detector's, lower by 0.15 of it. None if no
            frame has a face.

    Raises:
        ModuleNotFoundError: opencv is not installed.

    Example:
        >>> find_face(np.zeros((2, 288, 360), np.uint8)) is None
        True
    """
    cascade = _cascade()
    smallest = round(SMALLEST * frames.shape[1])
    detections = [cascade.detectMultiScale(frame, 1.1, 3, minSize=(smallest, smallest)) for frame in frames[::EVERY]]
    largest = [max(found, key=lambda box: float(box[2])) for found in detections if len(found)]
    if not largest:
        return None
    left, top, width, height = np.median(np.array(largest, np.float64), axis=0)
    side = SCALE * width
    return Box(left + (width - side) / 2, top + (0.5 + DOWN) * height - side / 2, side)


def cropped(frames: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    """The box in each frame, scaled to 48 x 48; beyond the edge of a frame its outermost pixels are repeated.

    Args:
        frames: gray, (F, height, width) uint8.
        box: the square to crop.

    Returns:
        (F, 48, 48) uint8.

    Example:
        >>> cropped(np.full((2, 288, 360), 7, np.uint8), Box(-10, 200, 100)).shape
        (2, 48, 48)
    """
    cv2 = module("cv2", "scaling frames", "video")
    side = max(round(box.side), 1)
    rows = np.clip(np.arange(side) + round(box.top), 0, frames.shape[1] - 1)
    columns = np.clip(np.arange(side) + round(box.left), 0, frames.shape[2] - 1)
    faces = frames[:, rows[:, None], columns]
    kind = cv2.INTER_AREA if side > SIDE else cv2.INTER_LINEAR
    return np.stack([cv2.resize(face, (SIDE, SIDE), interpolation=kind) for face in faces])


def _cascade() -> Any:
    """Read the detector, which takes 5 ms. Two threads must not use one at the same time."""
    cv2 = module("cv2", "finding faces", "video")
    if not hasattr(cv2, "CascadeClassifier"):
        raise ModuleNotFoundError(
            f"finding faces needs OpenCV 4, got {cv2.__version__}, which has no Haar cascades. Install it with: "
            f"pip install 'opencv-python-headless<5'",
            name="cv2",
        )
    cascade = cv2.CascadeClassifier(str(Path(cv2.data.haarcascades) / CASCADE))
    if cascade.empty():
        raise ModuleNotFoundError(f"OpenCV has no '{CASCADE}'. Install it with: pip install 'phased[video]'", name="cv2")
    return cascade
