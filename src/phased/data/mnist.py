"""MNIST: the images behind N-MNIST."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased.data.errors import BadFile, read_bytes

PREFIXES = {"train": "train", "test": "t10k"}
SIDE = 28


class Mnist(NamedTuple):
    """Images, (N, 28, 28) uint8, and their labels, (N,) uint8; MNIST's number n is at index n - 1."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def read_mnist(folder: Path | str, split: str = "train") -> Mnist:
    """Read the images and labels of MNIST.

    Args:
        folder: the folder with `train-images-idx3-ubyte.gz` and the three other files, as they are or unpacked; `find_mnist`
            finds it.
        split: "train" or "test".

    Returns:
        The images and labels.

    Raises:
        BadFile: a file is missing, truncated or of another kind, or there are not as many labels as images.
    """
    if split not in PREFIXES:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}.")
    images = _idx(Path(folder) / f"{PREFIXES[split]}-images-idx3-ubyte", 3)
    labels = _idx(Path(folder) / f"{PREFIXES[split]}-labels-idx1-ubyte", 1)
    if images.shape[1:] != (SIDE, SIDE):
        raise BadFile(folder, f"images must have {SIDE} x {SIDE} pixels, got {images.shape[1]} x {images.shape[2]}. Use MNIST's.")
    if len(images) != len(labels):
        raise BadFile(
            folder, f"each image must have a label, got {len(images)} images and {len(labels)} labels. Copy them again."
        )
    if len(labels) and labels.max() > 9:
        raise BadFile(folder, f"labels must be from 0 to 9, got {labels.max()}. Copy the files again.")
    return Mnist(images, labels)


def _idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file or, if there is no such file, in the one compressed with gzip."""
    packed = path.with_name(f"{path.name}.gz")
    path = path if path.exists() or not packed.exists() else packed
    data = read_bytes(path, BadFile)
    if path == packed:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error, struct.error) as error:
            raise BadFile(
                path, f"it must be a whole gzip file, got one that cannot be unpacked: {error}. Copy it again."
            ) from error
    start, magic = 4 * (1 + dimensions), 0x800 + dimensions  # 8: bytes without a sign
    if len(data) < start:
        raise BadFile(path, f"it must start with a header of {start} bytes, got {len(data)}. Copy it again.", len(data))
    got, *shape = struct.unpack_from(f">{1 + dimensions}I", data)
    if got != magic:
        raise BadFile(path, f"it must start with the number {magic:#06x}, got {got:#06x}. It is not the file its name says.", 0)
    size = start + int(np.prod(shape, dtype=object))
    if len(data) != size:
        raise BadFile(path, f"it must have {size} bytes when unpacked, got {len(data)}. Copy it again.", min(size, len(data)))
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()
