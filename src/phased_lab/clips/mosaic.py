"""The frames of a clip as one image in WebP."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phased_lab.clips.face import SIDE
from phased_lab.clips.needs import module

COLUMNS = 10
QUALITY = 50  # 22 KB a clip of 75 frames, and on average 4 of 255 gray levels of error, mostly the camera's noise


def packed(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes of one image with all frames, ten in a row.

    Args:
        frames: (F, 48, 48) uint8, at least one.

    Returns:
        A file in WebP, as uint8.
    """
    cv2 = module("cv2", "packing frames")
    rows = -(-len(frames) // COLUMNS)
    tiles = np.pad(frames, ((0, rows * COLUMNS - len(frames)), (0, 0), (0, 0)), mode="edge")
    mosaic = tiles.reshape(rows, COLUMNS, SIDE, SIDE).swapaxes(1, 2).reshape(rows * SIDE, COLUMNS * SIDE)
    done, image = cv2.imencode(".webp", mosaic, [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    if not done:
        raise RuntimeError("OpenCV cannot write WebP. Install it with: pip install 'phased[video]'")
    return np.asarray(image, np.uint8).reshape(-1)


def unpacked(image: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """The first `count` frames of an image that `packed` has made, (count, 48, 48) uint8."""
    cv2 = module("cv2", "loading frames")
    mosaic = np.asarray(cv2.imdecode(image, cv2.IMREAD_GRAYSCALE))
    rows = mosaic.shape[0] // SIDE
    return mosaic.reshape(rows, SIDE, COLUMNS, SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)[:count]
