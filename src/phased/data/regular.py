"""Reading whole files, with every failure as an error that names the file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from phased import files
from phased.data.errors import BadFile, BadRecording

# Opening a pipe must not block.
NONBLOCK = getattr(os, "O_NONBLOCK", 0)


def read_bytes(path: Path | str, error: type[BadFile] = BadRecording) -> bytes:
    """The content of a regular file."""
    try:
        with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | NONBLOCK)) as file:
            _must_be_regular(path, os.fstat(file.fileno()).st_mode, error)
            return file.read()
    except OSError as why:
        raise unreadable(path, why, error) from why


def size_of(path: Path | str, error: type[BadFile] = BadRecording) -> int:
    """The size in bytes of a regular file, for readers that open it themselves."""
    try:
        status = Path(path).stat()
    except OSError as why:
        raise unreadable(path, why, error) from why
    _must_be_regular(path, status.st_mode, error)
    return status.st_size


def unreadable(path: Path | str, why: OSError, error: type[BadFile] = BadRecording) -> BadFile:
    """The error for a file that the operating system does not open or read."""
    return error(path, f"cannot read it: {files.reason(why)}. Check its path and permissions.")


def _must_be_regular(path: Path | str, mode: int, error: type[BadFile]) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise error(path, f"it must be a regular file, got {what}. Pass the path of one file.")
