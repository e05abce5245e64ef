"""Files that cannot be read: which file, at which byte, what was expected, what came, and the cure."""

from __future__ import annotations

from pathlib import Path

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
