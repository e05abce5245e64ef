"""Zip archives, read without unpacking them, and refused if a name in them leaves the archive's folder."""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from pathlib import Path

from phased.data.errors import BadRecording
from phased.data.regular import unreadable

DRIVE = re.compile(r"[A-Za-z]:")


class Archive:
    """The files of a zip archive; all names are checked before anything is read.

    Args:
        path: the archive.

    Raises:
        BadRecording: it is not a zip archive, or it has a name that leaves its folder or occurs twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = zipfile.ZipFile(path)
        except OSError as error:
            raise unreadable(path, error) from error
        except Exception as error:  # the table of contents is damaged, and zipfile does not say what it raises then
            raise BadRecording(
                path, f"it must be a zip archive, got one that cannot be opened: {error}. Copy it again."
            ) from error
        for member in self._file.infolist():
            why = _unsafe(member)
            if why is not None:
                raise BadRecording(
                    path,
                    f"names in an archive must stay in its folder, got {member.orig_filename!r}, {why}. Nothing of it was read: "
                    f"use the archive of its publisher.",
                )
        self.sizes: dict[str, int] = {}
        for member in self._file.infolist():
            if member.filename in self.sizes:
                raise BadRecording(
                    path, f"each name must occur once in an archive, got {member.filename!r} twice. Copy it again."
                )
            if not member.is_dir():
                self.sizes[member.filename] = member.file_size

    def read(self, name: str) -> bytes:
        """The content of one file."""
        where = f"{self.path}/{name}"
        try:
            return self._file.read(name)
        except OSError as error:
            raise unreadable(where, error) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise BadRecording(
                where, f"it must be a whole file, got one that cannot be unpacked: {error}. Copy it again."
            ) from error


def _unsafe(member: zipfile.ZipInfo) -> str | None:
    """Why a name is refused, or None."""
    name = member.orig_filename
    kind = stat.S_IFMT(member.external_attr >> 16)
    if stat.S_ISLNK(kind):
        return "a link"
    if kind and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return "neither a file nor a folder"
    if name.startswith("/"):
        return "an absolute path"
    if DRIVE.match(name):
        return "a path with a drive"
    if "\\" in name or "\0" in name:
        return "with a character that is read differently elsewhere"
    return "a path upwards" if ".." in name.split("/") else None
