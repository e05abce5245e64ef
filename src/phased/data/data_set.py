"""A data set of recordings, indexed once and memory-mapped from then on."""

from __future__ import annotations

import hashlib
import mmap
import os
import warnings
from pathlib import Path
from typing import NamedTuple

from phased import files
from phased.data import layout, store
from phased.data.errors import BadRecording
from phased.data.index import Progress, build, capacity
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
    names, sizes and times of change of the files stay the same; otherwise it is made again.

    Args:
        folder: the folder with `Train/<digit>/<MNIST number>.bin` and `Test/...`, or with `Train.zip` and `Test.zip`.
            `find_nmnist` finds it. Other files and folders in it are ignored.
        split: "train" or "test".
        skip_bad: leave files out that cannot be read; otherwise the first of them is raised.
        cache: the folder for the index; by default PHASED_CACHE or the user's cache. If it cannot be written to, the recordings
            are kept in memory, with a warning.
        progress: called with the number of files that are done and the number of all, while they are decoded.

    Returns:
        The recordings, sorted by MNIST number, and the errors of the files that were left out.

    Raises:
        BadRecording: a file is bad, or an archive has a name that leaves its folder.
        FileNotFoundError: the folder has no such part.
        OSError: the disk of the cache is full.

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
    kept = Path(cache) if cache is not None else cache_folder()
    place = kept / f"nmnist-{split}-{hashlib.sha256(os.fsencode(source.path.absolute())).hexdigest()[:16]}.events"
    opened = store.load(place, source.key)
    if opened is None:
        opened = _indexed(source, place, skip_bad, progress)
    if opened[1] and not skip_bad:
        raise opened[1][0]
    return Opened(*opened)


def _indexed(
    source: layout.Source, place: Path, skip_bad: bool, progress: Progress | None
) -> tuple[Recordings, tuple[BadRecording, ...]]:
    """Decode all files into the cache or, if that cannot be written to, into memory."""
    members = source.members()
    regions = store.Regions(capacity(members))
    try:
        files.writable(place.parent)
    except OSError as error:
        warnings.warn(f"the recordings are indexed in memory, and again next time: {error} Set PHASED_CACHE to it.", stacklevel=3)
    else:
        try:
            with files.replacing(place) as file:
                writer = store.Writer(file, regions)
                writer.finish(build(source, members, writer, skip_bad, progress), source.key)
        except OSError as error:
            raise OSError(f"{error} It is the index of the recordings; PHASED_CACHE sets its folder.") from error
        opened = store.load(place, source.key)
        if opened is not None:
            return opened
    memory = mmap.mmap(-1, max(regions.size, 1))
    index = build(source, members, store.Writer(memory, regions), skip_bad, progress)
    return store.recordings(memory, regions, index), index.skipped
