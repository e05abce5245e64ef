"""Reading whole files, with every failure as an error that names the file."""

from __future__ import annotations

from pathlib import Path

from phased import files
from phased.data.errors import BadFile, BadRecording


def read_bytes(path: Path | str, error: type[BadFile] = BadRecording) -> bytes:
    """The content of a regular file."""
    size_of(path, error)
    try:
        return Path(path).read_bytes()
    except OSError as why:
        raise unreadable(path, why, error) from why


def size_of(path: Path | str, error: type[BadFile] = BadRecording) -> int:
    """The size in bytes of a regular file. To open a pipe would wait for its writer."""
    try:
        size = Path(path).stat().st_size
    except OSError as why:
        raise unreadable(path, why, error) from why
    if not Path(path).is_file():
        what = "a folder" if Path(path).is_dir() else "a pipe or a device"
        raise error(path, f"it must be a regular file, got {what}. Pass the path of one file.")
    return size


def unreadable(path: Path | str, why: OSError, error: type[BadFile] = BadRecording) -> BadFile:
    """The error for a file that the operating system does not open or read."""
    return error(path, f"cannot read it: {files.reason(why)}. Check its path and permissions.")
