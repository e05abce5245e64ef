"""Compiled kernels on disk, in a folder that only its user can write to: they are loaded into the user's processes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from phased import files, notice

# O_NOFOLLOW refuses a link; with O_NONBLOCK a pipe in the file's place does not block.
READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """The kernel of this name; one that is not in the cache is made and stored. Without a usable cache every process makes it."""
    folder = private(files.cache_folder())
    if folder is None:
        return make()
    path = folder / name
    code = read(path)
    if code is None:
        code = make()
        with suppress(OSError):  # a full disk
            path.unlink(missing_ok=True)  # a link or a pipe would be written to
            files.write_whole(path, files.seal(code), mode=0o600)
    return code


def private(folder: Path) -> Path | None:
    """The folder, created if it does not exist; None, with a warning, if other users can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    if own(status):
        return folder
    notice.warn(
        f"phased compiles its GPU kernels again in each process: the folder that keeps them, '{folder}', must belong to the "
        f"current user and be writable by that user alone. Run: chmod 700 '{folder}', or set PHASED_CACHE to another folder.",
        RuntimeWarning,
    )
    return None


def read(path: Path) -> bytes | None:
    """The content of a sealed file; None if it is absent, not this user's regular file, or damaged."""
    try:
        with os.fdopen(os.open(path, READ), "rb") as file:
            status = os.fstat(file.fileno())
            return files.unseal(file.read()) if stat.S_ISREG(status.st_mode) and own(status) else None
    except (OSError, files.Damaged):
        return None


def own(status: os.stat_result) -> bool:
    """Whether it belongs to this user and only this user can write to it. Windows has no such bits: its access lists decide."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
