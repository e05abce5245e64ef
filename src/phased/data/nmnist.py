"""N-MNIST as it is distributed, in folders or in archives: decoded once, and memory-mapped from then on.

The files are `Train/<digit>/<MNIST number>.bin`, in a folder or in the archive `Train.zip`, and `Test` likewise.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple

from phased.data import ragged
from phased.data.errors import BadRecording, read_bytes, unreadable
from phased.data.nmnist_file import decode
from phased.data.ragged import Progress
from phased.data.recordings import Recordings

SPLITS = {"train": "Train", "test": "Test"}
DIGITS = frozenset("0123456789")
NAME = re.compile(r"([0-9]{1,9})\.bin", re.IGNORECASE)
File = tuple[PurePath, int, int, Callable[[], bytes]]  # path in its part, size, time of change, and reader
LAYOUT = "{part}/<digit 0 to 9>/<MNIST number>.bin"


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
    found, place = members(Path(folder), split), place_of(Path(folder), split)

    def make() -> ragged.Stored:
        recordings, bad = decoded(found, skip_bad, progress)
        return ragged.Stored(recordings.arrays, [(error.path, error.what, error.byte) for error in bad])

    key = hashlib.sha256(repr([member.about for member in found]).encode("utf-8", "surrogateescape")).hexdigest()
    name = f"nmnist-{split}-{hashlib.sha256(os.fsencode(place.absolute())).hexdigest()[:16]}"
    stored = ragged.cached(cache, name, key, make)
    skipped = tuple(BadRecording(*error) for error in stored.about)
    if skipped and not skip_bad:
        raise skipped[0]
    return Opened(Recordings(**stored.arrays), skipped)


class Member(NamedTuple):
    """One file of a data set: MNIST number, label, path, size in bytes, time of change, and reader."""

    number: int
    label: int
    path: str
    size: int
    changed: int
    read: Callable[[], bytes]

    @property
    def about(self) -> tuple[Any, ...]:
        """What tells versions of the file apart."""
        return self[:-1]


def place_of(folder: Path, split: str) -> Path:
    """The folder of one part of a data set or, if there is no such folder, its archive."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}.")
    part = SPLITS[split]
    for path in (folder / part, folder / f"{part}.zip", folder / f"{split}.zip"):
        if path.is_file() if path.suffix else path.is_dir():
            return path
    raise FileNotFoundError(
        f"expected the folder '{part}' with files {LAYOUT.format(part=part)}, or the archive '{part}.zip', in '{folder}', got "
        f"neither. Pass the folder that contains it (--data)."
    )


def members(folder: Path, split: str) -> list[Member]:
    """All recordings of one part of a data set, in the order of their MNIST numbers. Other names are ignored.

    Each number must be there once: two labels for one digit cannot both be right.
    """
    place, part = place_of(folder, split), SPLITS[split]
    files = packed(place, part) if place.suffix else unpacked(place)
    found = [
        Member(int(match[1]), int(file.parent.name), str(place / file), size, changed, read)
        for file, size, changed, read in files
        if file.parent.name in DIGITS and (match := NAME.fullmatch(file.name))
    ]
    found.sort(key=lambda member: member.about)
    if not found:
        what = f"it must have files {LAYOUT.format(part=part)}, got none."
        raise BadRecording(place, f"{what} Pass the folder that contains '{part}' (--data).")
    for one, other in pairwise(found):
        if one.number == other.number:
            what = f"each MNIST number must be there once, got {other.number} in '{one.path}' too. Remove the wrong file."
            raise BadRecording(other.path, what)
    return found


def unpacked(folder: Path) -> Iterator[File]:
    """The files in a folder. A file that cannot be opened has size 0, and reading it is an error."""
    for file in folder.glob("[0-9]/*"):
        yield file.relative_to(folder), *(ragged.version(file) or (0, 0)), partial(read_bytes, file)


def packed(path: Path, part: str) -> Iterator[File]:
    """The files in an archive, which is read without unpacking it to the disk."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # zipfile raises errors of many types for a damaged table of contents
        raise BadRecording(path, f"it must be a zip archive, got one that cannot be opened: {error}. Copy it again.") from error
    changed = path.stat().st_mtime_ns
    for member in archive.infolist():
        file = PurePosixPath(member.filename)
        if str(file.parent.parent) in (".", part):
            yield file, member.file_size, changed, partial(unpack, archive, member, path / file)


def unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    """The bytes of a file in an archive."""
    try:
        return archive.read(member)
    except OSError as error:
        raise unreadable(path, error) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise BadRecording(path, f"it must be a whole file, got one that cannot be unpacked: {error}. Copy it again.") from error


def decoded(members: Sequence[Member], skip_bad: bool, progress: Progress | None) -> tuple[Recordings, list[BadRecording]]:
    """All recordings in flat arrays; bad ones are an error or, with `skip_bad`, left out and named."""
    good, skipped = [], []
    for done, member in enumerate(members, 1):
        try:
            good.append(Recordings.of([decode(member.read(), member.path)], [member.label], [member.number]))
        except BadRecording as error:
            if not skip_bad:
                raise
            skipped.append(error)
        if progress is not None:
            progress(done, len(members))
    if not good:
        first = skipped[0]
        raise BadRecording(first.path, f"{first.what} All {len(members)} recordings are bad; this is the first.", first.byte)
    return Recordings.concatenate(good), skipped
