"""MNIST: the images behind N-MNIST."""

from __future__ import annotations

import gzip
import math
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
    images = _idx(Path(folder) / f"{PREFIXES[split]}-images-idx3-ubyte", SIDE, SIDE)
    labels = _idx(Path(folder) / f"{PREFIXES[split]}-labels-idx1-ubyte")
    if len(images) != len(labels):
        what = f"each image must have a label, got {len(images)} images and {len(labels)} labels. Copy them again."
        raise BadFile(folder, what)
    return Mnist(images, labels)


def _idx(path: Path, *sides: int) -> NDArray[np.uint8]:
    """The array (N, *sides) in an idx file or, if there is no such file, in the one compressed with gzip."""
    packed = path.with_name(f"{path.name}.gz")
    path = path if path.exists() or not packed.exists() else packed
    data = read_bytes(path, BadFile)
    if path == packed:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error, struct.error) as error:
            what = f"it must be a whole gzip file, got one that cannot be unpacked: {error}. Copy it again."
            raise BadFile(path, what) from error
    start, magic = 8 + 4 * len(sides), 0x801 + len(sides)  # 8: bytes without a sign
    found, count, *shape = struct.unpack(f">{start // 4}I", data[:start].ljust(start, b"\0"))
    if (found, *shape) != (magic, *sides) or len(data) != start + count * math.prod(sides):
        wanted = " x ".join(map(str, ["N", *sides]))
        what = f"it must have the header {magic:#06x} and then {wanted} bytes, got {found:#06x} and {len(data)} bytes in all."
        raise BadFile(path, f"{what} It is cut off, or not the file its name says: copy it again.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(count, *sides).copy()
