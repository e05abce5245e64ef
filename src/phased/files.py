"""Files: atomic writing, the user's cache folder, and names that can be printed.

A kill, a full disk or a power cut leaves the old file or the new one, never a part.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

CHUNK = 2**20
PREFIX, SUFFIX = ".phased-", ".part"
SEAL = b"\nsha256:"
SEAL_SIZE = len(SEAL) + 2 * hashlib.sha256().digest_size


def cache_folder() -> Path:
    """The user's folder for what can be made again: PHASED_CACHE, or one in the cache of the operating system."""
    named = os.environ.get("PHASED_CACHE")
    if named:
        return expanded(named)
    if sys.platform == "win32":
        return expanded(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "phased" / "cache"
    if sys.platform == "darwin" and not os.environ.get("XDG_CACHE_HOME"):
        return expanded("~/Library/Caches/phased")
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "phased"


def expanded(path: Path | str) -> Path:
    """The path with the user's home folder in place of ~."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise FileNotFoundError(f"there is no home folder for '{path}'. Set HOME, or PHASED_CACHE and PHASED_DATA.") from error


def printable(text: str) -> str:
    """The text on one line: control characters, line breaks and lone surrogates are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text)


def writable(folder: Path, room: int = 1) -> Path:
    """The folder, created if it does not exist; an OSError with its name and the cure if `room` bytes cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for left in range(room, 0, -CHUNK):
                file.write(bytes(min(left, CHUNK)))
            file.flush()
    except FileExistsError as error:
        raise OSError(f"cannot write to the folder '{folder}': it is a file. Move it away, or choose another folder.") from error
    except OSError as error:
        cure = "Make room there, or choose another" if full(error) else "Choose another"
        raise OSError(f"cannot write to the folder '{folder}': {reason(error)}. {cure} folder.") from error
    return folder


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write and sync a temporary file, then rename it: a reader finds the old file or the new one."""
    with replacing(path, mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A temporary file to write to; it is synced and renamed to `path` at the end, or removed if an error is raised.

    Its permissions are `mode` less the umask. The temporary name is random and must not exist, so that no link is followed.
    """
    part = path.with_name(f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
    try:
        try:
            with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        intact = "the one before it is intact" if path.exists() else "there was none before it"
        raise OSError(
            f"cannot write '{path}': {reason(error)}; {intact}. Make room, or choose another folder, and run it again."
        ) from error
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name in it is on the disk, where the system supports it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(handle)
        os.close(handle)


def remove_parts(folder: Path) -> None:
    """Remove temporary files of killed processes; no other process may be writing in the folder."""
    for part in folder.glob(f"{PREFIX}*{SUFFIX}"):
        part.unlink(missing_ok=True)


class Damaged(ValueError):
    """The content of a file is not what was written."""


def seal(data: bytes) -> bytes:
    """The data followed by its SHA-256; readers of zip archives and ELF files ignore such trailing bytes."""
    return data + SEAL + digest(data)


def unseal(data: bytes) -> bytes:
    """The data of `seal`; `Damaged` if a bit of it or of its digest has changed."""
    if not data[-SEAL_SIZE:].startswith(SEAL):
        raise Damaged("it must end with its SHA-256, and does not")
    body, kept = data[:-SEAL_SIZE], data[-SEAL_SIZE + len(SEAL) :]
    if kept != digest(body):
        raise Damaged(f"its SHA-256 must be {kept.decode('ascii', 'backslashreplace')}, got {digest(body).decode()}")
    return body


def digest(data: bytes) -> bytes:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest().encode()


def full(error: OSError) -> bool:
    """Whether the error means too little space."""
    return error.errno in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


def reason(error: OSError) -> str:
    """The operating system's message."""
    return error.strerror or str(error)
