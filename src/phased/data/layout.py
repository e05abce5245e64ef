"""N-MNIST as it is distributed: `Train/<digit>/<MNIST number>.bin` in a folder or in the archive `Train.zip`; `Test` likewise."""

from __future__ import annotations

import hashlib
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from phased.data.archive import Archive
from phased.data.errors import BadRecording
from phased.data.regular import read_bytes

SPLITS = {"train": "Train", "test": "Test"}
DIGITS = tuple("0123456789")
NAME = re.compile(r"([0-9]{1,9})\.bin", re.IGNORECASE)
LAYOUT = "{part}/<digit 0 to 9>/<MNIST number>.bin"


class Member(NamedTuple):
    """One file of a data set: its label and MNIST number, its path, and its size in bytes."""

    number: int
    label: int
    path: str
    size: int


class Source(Protocol):
    """One part of a data set, in a folder or an archive. `key` changes with its files; `members` are sorted by MNIST number."""

    path: Path
    key: str

    def members(self) -> list[Member]:
        """All recordings."""

    def read(self, member: Member) -> bytes:
        """The bytes of one; `BadRecording` if it cannot be read."""


def find(folder: Path, split: str) -> Source:
    """The part of the data set in a folder or, if there is no such folder, in an archive."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}.")
    part = SPLITS[split]
    if (folder / part).is_dir():
        return Folder(folder / part, part)
    for archive in (folder / f"{part}.zip", folder / f"{split}.zip"):
        if archive.is_file():
            return Zipped(archive, part)
    raise FileNotFoundError(
        f"expected the folder '{part}' with files {LAYOUT.format(part=part)}, or the archive '{part}.zip', in '{folder}', got "
        f"neither. Pass the folder that contains it (--data)."
    )


class Folder:
    """A part of a data set in a folder. Names that are not of the layout are ignored."""

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        self._files: list[tuple[str, str, int, int]] = []  # digit, name, size, time of change
        for digit in DIGITS:
            if (path / digit).is_dir():
                with os.scandir(path / digit) as entries:
                    for entry in entries:
                        self._files.append((digit, entry.name, *_size_and_time(entry)))
        self.key = hashlib.sha256(repr(sorted(self._files)).encode("utf-8", "surrogateescape")).hexdigest()

    def members(self) -> list[Member]:
        """All recordings."""
        found = []
        for digit, name, size, _ in self._files:
            match = NAME.fullmatch(name)
            if match:
                found.append(Member(int(match[1]), int(digit), str(self.path / digit / name), size))
        if not found:
            raise _nothing(self.path, self.part)
        return _by_number(found)

    def read(self, member: Member) -> bytes:
        """The bytes of one."""
        return read_bytes(member.path)


def _size_and_time(entry: os.DirEntry[str]) -> tuple[int, int]:
    """Size and time of change of a file; zeros for one that cannot be read, which is an error when it is."""
    try:
        status = entry.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


class Zipped:
    """A part of a data set in an archive, read without unpacking it. Names that are not of the layout are ignored."""

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        status = path.stat()
        self.key = hashlib.sha256(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()
        self._archive: Archive | None = None

    def members(self) -> list[Member]:
        """All recordings."""
        self._archive = Archive(self.path)
        members = []
        for name, size in self._archive.sizes.items():
            *above, digit, file = name.split("/") if "/" in name else ("", "", name)
            match = NAME.fullmatch(file)
            if match and digit in DIGITS and above in ([], [self.part]):
                members.append(Member(int(match[1]), int(digit), f"{self.path}/{name}", size))
        if not members:
            raise _nothing(self.path, self.part)
        return _by_number(members)

    def read(self, member: Member) -> bytes:
        """The bytes of one."""
        if self._archive is None:
            self._archive = Archive(self.path)
        return self._archive.read(member.path.removeprefix(f"{self.path}/"))


def _by_number(members: list[Member]) -> list[Member]:
    """The recordings in the order of their MNIST numbers, each number once: two labels for one digit cannot both be right."""
    ordered = sorted(members)
    for one, other in pairwise(ordered):
        if one.number == other.number:
            raise BadRecording(
                other.path,
                f"each MNIST number must be there once, got {other.number} in '{one.path}' too. Remove the wrong file.",
            )
    return ordered


def _nothing(path: Path, part: str) -> BadRecording:
    layout = LAYOUT.format(part=part)
    return BadRecording(path, f"it must have files {layout}, got none. Pass the folder that contains '{part}' (--data).")
