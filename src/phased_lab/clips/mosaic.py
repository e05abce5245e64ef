"""The frames of a clip as one image in WebP."""

from __future__ import annotations

from typing import Any

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
    """The frames of `packed`; Pillow decodes the image where OpenCV is not installed.

    Args:
        image: the bytes of the image.
        count: the number of frames.

    Returns:
        (count, 48, 48) uint8.

    Raises:
        ValueError: it is no image, or has fewer frames.
    """
    mosaic = _decoded(image)
    if mosaic is None or mosaic.ndim != 2 or mosaic.shape[1] != COLUMNS * SIDE or mosaic.size < count * SIDE * SIDE:
        raise ValueError(f"frames must be one image in WebP with {count} tiles, and are not.")
    rows = mosaic.shape[0] // SIDE
    return mosaic.reshape(rows, SIDE, COLUMNS, SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)[:count]


def _decoded(image: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    try:
        cv2: Any = module("cv2", "loading frames")
    except ModuleNotFoundError as missing:
        return _with_pillow(image, missing)
    return np.asarray(cv2.imdecode(image, cv2.IMREAD_GRAYSCALE)) if len(image) else None


def _with_pillow(image: NDArray[np.uint8], missing: ModuleNotFoundError) -> NDArray[np.uint8] | None:
    try:
        from io import BytesIO

        from PIL import Image
    except ModuleNotFoundError:
        raise missing from None
    try:
        return np.asarray(Image.open(BytesIO(image.tobytes())).convert("L"))
    except OSError:
        return None
