"""File locks between processes; the operating system releases a lock when its process ends, even if it was killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

INTERVAL = 0.2  # seconds between two attempts


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """Yield whether the lock was acquired; the file exists while it is held. With `wait`, block until it is free."""
    file = acquire(path)
    while file is None and wait:
        time.sleep(INTERVAL)
        file = acquire(path)
    try:
        yield file is not None
    finally:
        if file is not None:
            if os.name == "posix":  # Windows cannot remove an open file; a remaining unlocked file is harmless
                path.unlink(missing_ok=True)
            file.close()


def acquire(path: Path) -> BinaryIO | None:
    """Open and lock the file; None if another process holds the lock."""
    while True:
        file = path.open("ab")
        if not lock(file):
            file.close()
            return None
        if is_at(file, path):
            return file
        file.close()  # the previous holder removed the file after it was opened here


def is_at(file: BinaryIO, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def lock(file: BinaryIO) -> bool:
        """Take the lock of an open file, if it is free."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock(file: BinaryIO) -> bool:
        """Take the lock of an open file, if it is free."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: two sweeps may then do the same run
            return True
        return True
