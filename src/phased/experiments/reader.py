"""Reading a folder with arbitrary content: only regular files of bounded size, one line in memory at a time."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from phased import files

LARGEST_FILE = 2**28  # bytes, 256 MiB: thousands of runs
LONGEST_LINE = 2**24  # bytes, 16 MiB: a run of a hundred thousand epochs


class Unreadable(Exception):
    """A file cannot be read; the message says why."""


def skip(place: str, reason: object) -> str:
    """Warn that a file or line is skipped, and return the message."""
    sentence = f"{place}: skipped, {reason}. The file was not changed."
    warnings.warn(sentence, stacklevel=3)
    return sentence


def quoted(path: Path) -> str:
    """A path in quotes, on one line; its name may contain any bytes."""
    return f"'{files.printable(str(path))}'"


def find(folder: Path, suffix: str) -> tuple[list[Path], dict[Path, str]]:
    """All paths under a folder with this suffix, sorted; and the folders that cannot be listed, with the reason.

    Links to folders are not followed, so a link to a parent causes no endless loop.
    """
    found: list[Path] = []
    unlisted: dict[Path, str] = {}
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.name.endswith(suffix):
                        found.append(here / entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(here / entry.name)
        except OSError as error:
            unlisted[here] = f"it cannot be listed: {files.reason(error)}"
    return sorted(found), unlisted


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file and their numbers, from 1; a longer line is cut to LONGEST_LINE + 1 bytes."""
    with _opened(path) as file:
        number, left = 0, LARGEST_FILE
        # The size is bounded here too: the file may grow while it is read.
        while left > 0 and (line := file.readline(LONGEST_LINE + 1)):
            number += 1
            left -= len(line)
            yield number, line
            while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE + 1)
                left -= len(line)


def content(path: Path) -> bytes:
    """The content of a file of at most LONGEST_LINE bytes."""
    with _opened(path, LONGEST_LINE) as file:
        return file.read(LONGEST_LINE)


@contextmanager
def _opened(path: Path, largest: int | None = None) -> Iterator[BinaryIO]:
    largest = LARGEST_FILE if largest is None else largest
    try:
        state = path.stat()
        # Checked before opening: opening a FIFO can block, and opening a device can change its state.
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable(f"it cannot be read: expected a regular file, got a {_kind(state.st_mode)}")
        if state.st_size > largest:
            raise Unreadable(f"it has {state.st_size} bytes, more than {largest >> 20} MiB. Split it into smaller files")
        with open(path, "rb", opener=_without_blocking) as file:
            yield file
    except OSError as error:
        raise Unreadable(f"it cannot be read: {files.reason(error)}") from error


def _without_blocking(path: str, flags: int) -> int:
    """Open without blocking: the file may have been replaced by a FIFO since the check. Windows has no FIFOs."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")
