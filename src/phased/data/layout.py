"""N-MNIST as it is distributed: `Train/<digit>/<MNIST number>.bin` in a folder or in the archive `Train.zip`; `Test` likewise."""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from phased.data.errors import BadRecording
from phased.data.regular import read_bytes, unreadable

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
        self._files = [(file, *_size_and_time(file)) for digit in DIGITS for file in (path / digit).glob("*")]
        about = sorted((file.parent.name, file.name, size, time) for file, size, time in self._files)
        self.key = hashlib.sha256(repr(about).encode("utf-8", "surrogateescape")).hexdigest()

    def members(self) -> list[Member]:
        """All recordings."""
        return _members([(file.parent.name, file.name, str(file), size) for file, size, _ in self._files], self)

    def read(self, member: Member) -> bytes:
        """The bytes of one."""
        return read_bytes(member.path)


class Zipped:
    """A part of a data set in an archive, read without unpacking it. Names that are not of the layout are ignored."""

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        status = path.stat()
        self.key = hashlib.sha256(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        except Exception as error:  # the table of contents is damaged, and zipfile does not say what it raises then
            raise BadRecording(
                self.path, f"it must be a zip archive, got one that cannot be opened: {error}. Copy it again."
            ) from error

    def members(self) -> list[Member]:
        """All recordings."""
        found = []
        for file in self._archive.infolist():
            *above, digit, name = file.filename.split("/") if "/" in file.filename else ("", "", file.filename)
            if above in ([], [self.part]):
                found.append((digit, name, f"{self.path}/{file.filename}", file.file_size))
        return _members(found, self)

    def read(self, member: Member) -> bytes:
        """The bytes of one."""
        try:
            return self._archive.read(member.path.removeprefix(f"{self.path}/"))
        except OSError as error:
            raise unreadable(member.path, error) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            what = f"it must be a whole file, got one that cannot be unpacked: {error}. Copy it again."
            raise BadRecording(member.path, what) from error


def _size_and_time(file: Path) -> tuple[int, int]:
    """Size and time of change of a file; zeros for one that cannot be read, which is an error when it is."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _members(found: list[tuple[str, str, str, int]], source: Folder | Zipped) -> list[Member]:
    """The recordings among files (digit, name, path, size), in the order of their MNIST numbers.

    Each number must be there once: two labels for one digit cannot both be right.
    """
    named = [(NAME.fullmatch(name), digit, path, size) for digit, name, path, size in found if digit in DIGITS]
    members = sorted(Member(int(match[1]), int(digit), path, size) for match, digit, path, size in named if match)
    if not members:
        what = f"it must have files {LAYOUT.format(part=source.part)}, got none."
        raise BadRecording(source.path, f"{what} Pass the folder that contains '{source.part}' (--data).")
    for one, other in pairwise(members):
        if one.number == other.number:
            what = f"each MNIST number must be there once, got {other.number} in '{one.path}' too. Remove the wrong file."
            raise BadRecording(other.path, what)
    return members
