"""N-MNIST as it is distributed, in folders or in archives: decoded once, and memory-mapped from then on.

The files are `Train/<digit>/<MNIST number>.bin`, in a folder or in the archive `Train.zip`, and `Test` likewise.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
import zlib
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

import numpy as np
import torch

from phased.data import nmnist_file, ragged
from phased.data.errors import BadRecording, read_bytes, unreadable
from phased.data.ragged import Progress, Ragged
from phased.data.recording import NMNIST
from phased.data.recordings import Recordings

SPLITS = {"train": "Train", "test": "Test"}
DIGITS = tuple("0123456789")
NAME = re.compile(r"([0-9]{1,9})\.bin", re.IGNORECASE)
LAYOUT = "{part}/<digit 0 to 9>/<MNIST number>.bin"
LARGEST = 2**24  # bytes of a recording, hundreds of times those of N-MNIST: an archive can unpack to far more than memory holds


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
    source = source_in(Path(folder), split)

    def make() -> ragged.Stored:
        recordings, bad = decoded(source, skip_bad, progress)
        return ragged.Stored(recordings.arrays, [(error.path, error.what, error.byte) for error in bad])

    name = f"nmnist-{split}-{hashlib.sha256(os.fsencode(source.path.absolute())).hexdigest()[:16]}"
    stored = ragged.cached(cache, name, source.key, make)
    skipped = tuple(BadRecording(*error) for error in stored.about)
    if skipped and not skip_bad:
        raise skipped[0]
    return Opened(Recordings.of_arrays(stored.arrays), skipped)


class Member(NamedTuple):
    """One file of a data set: its MNIST number and label, its path, and its size in bytes."""

    number: int
    label: int
    path: str
    size: int


class Source:
    """One part of a data set, in a folder or in an archive, which is read without unpacking it. Other names are ignored.

    Attributes:
        path: the folder or the archive.
        part: "Train" or "Test".
        key: changes with the files.
    """

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part, self._packed = path, part, path.suffix == ".zip"
        found = [path] if self._packed else [file for digit in DIGITS for file in (path / digit).glob("*")]
        # A file that cannot be opened here is an error when it is read.
        self._files = [(file, *(ragged.version(file) or (0, 0))) for file in found]
        about = sorted((file.parent.name, file.name, size, time) for file, size, time in self._files)
        self.key = hashlib.sha256(repr(about).encode("utf-8", "surrogateescape")).hexdigest()

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        except Exception as error:  # the table of contents is damaged, and zipfile does not say what it raises then
            what = f"it must be a zip archive, got one that cannot be opened: {error}. Copy it again."
            raise BadRecording(self.path, what) from error

    def members(self) -> list[Member]:
        """All recordings, in the order of their MNIST numbers.

        Each number must be there once: two labels for one digit cannot both be right.
        """
        if self._packed:
            named = [(PurePosixPath(file.filename), file.file_size) for file in self._archive.infolist()]
            found: list[tuple[PurePath, int]] = [each for each in named if str(each[0].parent.parent) in (".", self.part)]
        else:
            found = [(file.relative_to(self.path), size) for file, size, _ in self._files]
        matched = [(NAME.fullmatch(file.name), file, size) for file, size in found if file.parent.name in DIGITS]
        members = sorted(
            Member(int(match[1]), int(file.parent.name), str(self.path / file), size) for match, file, size in matched if match
        )
        if not members:
            what = f"it must have files {LAYOUT.format(part=self.part)}, got none."
            raise BadRecording(self.path, f"{what} Pass the folder that contains '{self.part}' (--data).")
        for one, other in pairwise(members):
            if one.number == other.number:
                what = f"each MNIST number must be there once, got {other.number} in '{one.path}' too. Remove the wrong file."
                raise BadRecording(other.path, what)
        return members

    def read(self, member: Member) -> bytes:
        """The bytes of a recording."""
        if member.size > LARGEST:
            what = f"a recording must have at most {LARGEST:,} bytes, got {member.size:,}. Copy it again."
            raise BadRecording(member.path, what)
        if not self._packed:
            return read_bytes(member.path)
        try:
            return self._archive.read(PurePath(member.path).relative_to(self.path).as_posix())
        except OSError as error:
            raise unreadable(member.path, error) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            what = f"it must be a whole file, got one that cannot be unpacked: {error}. Copy it again."
            raise BadRecording(member.path, what) from error


def source_in(folder: Path, split: str) -> Source:
    """The part of the data set in a folder or, if there is no such folder, in an archive."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}.")
    part = SPLITS[split]
    for path in (folder / part, folder / f"{part}.zip", folder / f"{split}.zip"):
        if path.is_file() if path.suffix else path.is_dir():
            return Source(path, part)
    raise FileNotFoundError(
        f"expected the folder '{part}' with files {LAYOUT.format(part=part)}, or the archive '{part}.zip', in '{folder}', got "
        f"neither. Pass the folder that contains it (--data)."
    )


def decoded(source: Source, skip_bad: bool, progress: Progress | None) -> tuple[Recordings, list[BadRecording]]:
    """All recordings in flat arrays; bad ones are an error or, with `skip_bad`, left out and named."""
    members, good, skipped = source.members(), [], []
    for done, member in enumerate(members, 1):
        try:
            x, y, polarity, time = nmnist_file.unpack(source.read(member), member.path, NMNIST)
        except BadRecording as error:
            if not skip_bad:
                raise
            skipped.append(error)
        else:
            address = (y.astype(np.int16) * NMNIST.width + x) * 2 + polarity.astype(np.int16)
            one = Ragged.one(address=torch.from_numpy(address), time=torch.from_numpy(time.astype(np.int32)))
            good.append((one, member.label, member.number))
        if progress is not None:
            progress(done, len(members))
    if not good:
        first = skipped[0]
        raise BadRecording(first.path, f"{first.what} All {len(members)} recordings are bad; this is the first.", first.byte)
    parts, label, number = zip(*good, strict=True)
    events = Ragged.joined(parts)
    found = Recordings(
        **events.arrays, offset=events.offset, label=torch.tensor(label), number=torch.tensor(number), sensor=NMNIST
    )
    return found, skipped
