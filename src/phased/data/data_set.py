"""A data set of recordings, indexed once and memory-mapped from then on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from phased.data import layout, ragged
from phased.data.errors import BadRecording
from phased.data.index import Progress, build
from phased.data.recordings import Recordings
from phased.files import cache_folder


class Opened(NamedTuple):
    """The recordings of a data set, and the errors of the files that were left out."""

    recordings: Recordings
    skipped: tuple[BadRecording, ...]


def open_recordings(
    folder: Path | str,
    split: str = "train",
    *,
    skip_bad: bool = False,
    cache: Path | str | None = None,
    progress: Progress | None = None,
) -> Opened:
    """Open N-MNIST, from the folders or the archives in which it is distributed.

    The first call decodes all files into one file in the cache, 6 bytes an event. Later calls map it into memory, as long as
    names, sizes and times of change of the files stay the same; otherwise, or if a bit of it has changed, it is made again.

    Args:
        folder: the folder with `Train/<digit>/<MNIST number>.bin` and `Test/...`, or with `Train.zip` and `Test.zip`.
            `find_nmnist` finds it. Other files and folders in it are ignored.
        split: "train" or "test".
        skip_bad: leave files out that cannot be read; otherwise the first of them is raised.
        cache: the folder for the index; by default PHASED_CACHE or the user's cache.
        progress: called with the number of files that are done and the number of all, while they are decoded.

    Returns:
        The recordings, sorted by MNIST number, and the errors of the files that were left out.

    Raises:
        BadRecording: a file is bad.
        FileNotFoundError: the folder has no such part.
        OSError: the cache cannot be written to.

    Example:
        >>> from tempfile import mkdtemp
        >>> import numpy as np
        >>> data = Path(mkdtemp())
        >>> (data / "Train" / "7").mkdir(parents=True)
        >>> np.array([3, 4, 0x80, 0, 10, 5, 6, 0, 0, 12], np.uint8).tofile(data / "Train" / "7" / "00016.bin")
        >>> recordings, skipped = open_recordings(data, "train", cache=data)
        >>> recordings.number, recordings.label, recordings[0].time
        (tensor([16]), tensor([7]), array([10, 12]))
    """
    source = layout.find(Path(folder), split)

    def make() -> ragged.Stored:
        recordings, bad = build(source, skip_bad, progress)
        return ragged.Stored(recordings.arrays, [(error.path, error.what, error.byte) for error in bad])

    name = f"nmnist-{split}-{hashlib.sha256(os.fsencode(source.path.absolute())).hexdigest()[:16]}.safetensors"
    stored = ragged.cached((Path(cache) if cache is not None else cache_folder()) / name, source.key, make)
    skipped = tuple(BadRecording(*error) for error in stored.about)
    if skipped and not skip_bad:
        raise skipped[0]
    return Opened(Recordings.of_arrays(stored.arrays), skipped)
