"""N-MNIST as it is distributed: `Train/<digit>/<MNIST number>.bin` in a folder or in the archive `Train.zip`; `Test` likewise."""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

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


class Source:
    """One part of a data set, in a folder or in an archive, which is read without unpacking it. Other names are ignored.

    Attributes:
        path: the folder or the archive.
        part: "Train" or "Test".
        key: changes with the files.
    """

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        if self._packed:
            status = path.stat()
            about: object = f"{path.name} {status.st_size} {status.st_mtime_ns}"
        else:
            self._files = [(file, *_size_and_time(file)) for digit in DIGITS for file in (path / digit).glob("*")]
            about = sorted((file.parent.name, file.name, size, time) for file, size, time in self._files)
        self.key = hashlib.sha256(repr(about).encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def _packed(self) -> bool:
        return self.path.suffix == ".zip"

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
        """The bytes of one; `BadRecording` if it cannot be read."""
        if not self._packed:
            return read_bytes(member.path)
        try:
            return self._archive.read(PurePath(member.path).relative_to(self.path).as_posix())
        except OSError as error:
            raise unreadable(member.path, error) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            what = f"it must be a whole file, got one that cannot be unpacked: {error}. Copy it again."
            raise BadRecording(member.path, what) from error


def find(folder: Path, split: str) -> Source:
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


def _size_and_time(file: Path) -> tuple[int, int]:
    """Size and time of change of a file; zeros for one that cannot be read, which is an error when it is."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
