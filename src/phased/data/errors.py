"""Files that cannot be read, and reading whole files: which file, at which byte, what was expected, what came, and the cure."""

from __future__ import annotations

from pathlib import Path

from phased import files
from phased.files import printable


class BadFile(ValueError):
    """A file whose content is not what it should be.

    Args:
        path: the file; for a member of an archive, the archive followed by the member's name.
        what: what was expected, what came and the cure.
        byte: where in the file, from 0; None if it cannot be known.
    """

    def __init__(self, path: Path | str, what: str, byte: int | None = None) -> None:
        super().__init__(str(path), what, byte)
        self.path = str(path)
        self.what = what
        self.byte = byte

    def __str__(self) -> str:
        return printable(f"'{self.path}'{'' if self.byte is None else f', byte {self.byte}'}: {self.what}")


class BadRecording(BadFile):
    """An event file that cannot be read.

    Example:
        >>> str(BadRecording("00001.bin", "x must be from 0 to 33, got 200.", byte=45))
        "'00001.bin', byte 45: x must be from 0 to 33, got 200."
    """


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
