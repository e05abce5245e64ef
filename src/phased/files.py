"""Files: atomic writing, the user's cache folder, and names that can be printed.

A kill, a full disk or a power cut leaves the old file or the new one, never a part.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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


def named(path: str | os.PathLike[str]) -> Path:
    """Return the path. A ValueError for an empty name, as of an unset shell variable: it would mean the current folder."""
    if not os.fspath(path):
        raise ValueError("a file or folder must have a name, got an empty one. Name it.")
    place = Path(path)
    if "\0" in str(place):
        raise ValueError(f"a name must be without null characters, got '{printable(str(place))}'. Name another file or folder.")
    return place


def check_utf8(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError for the name of a table that is not UTF-8, which polars does not read."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name of a table must be UTF-8, got '{printable(os.fspath(path))}'. Rename it.") from error


def printable(text: str) -> str:
    """The text on one line: control characters, line breaks and lone surrogates are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text)


def writable(folder: Path, room: int = 1, create: bool = True, file: str = "") -> Path:
    """Return the folder. An OSError names it and the cure if `room` bytes cannot be written there.

    The folder is created if it does not exist. Without `create` its nearest existing parent is tested instead, and that the names
    below it, of folders and of the `file` to be written, are not too long.
    """
    try:
        place = folder
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            place = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), folder)
            if not place.is_dir():
                raise FileExistsError
            for name in (*folder.relative_to(place).parts, file):
                with suppress(FileNotFoundError):
                    (place / name).lstat()
        with tempfile.TemporaryFile(dir=place) as tested:
            for left in range(room, 0, -CHUNK):
                tested.write(bytes(min(left, CHUNK)))
            tested.flush()
    except FileExistsError as error:
        raise OSError(
            f"cannot write to the folder '{folder}': it is no folder. Move it away, or choose another folder."
        ) from error
    except OSError as error:
        cure = "Make room there, or choose another" if full(error) else "Choose another"
        raise OSError(f"cannot write to the folder '{folder}': {reason(error)}. {cure} folder.") from error
    return folder


def destination(path: Path) -> tuple[Path, bool]:
    """Return the file that is written, behind all links, and whether it is replaced.

    Devices, FIFOs and the standard output of this process are opened and written instead. Anything else but a regular file is an
    OSError.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFLNK if path.is_symlink() else stat.S_IFREG
    except OSError as error:
        raise OSError(f"cannot write '{path}': {reason(error)}. Choose another file.") from error
    refused = {stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link to a file that does not exist"}
    if stat.S_IFMT(mode) in refused:
        raise OSError(f"'{path}' must be a file to write, got {refused[stat.S_IFMT(mode)]}. Choose another file.")
    replaced = stat.S_ISREG(mode) and standard_output(path) is None
    return Path(os.path.realpath(path)) if replaced else path, replaced


def standard_output(path: Path) -> int | None:
    """Return the descriptor of this process's standard output or error if a path leads to it, as /dev/stdout does, or None."""
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return stream
    return None


def check_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise an error, before any work, if a file cannot be written, is an input, or is directly in a folder that is an input."""
    place, replaced = destination(path)
    if replaced or not place.exists():
        writable(place.parent, create=False, file=place.name)
    elif not os.access(place, os.W_OK):
        raise OSError(f"cannot write '{path}': {os.strerror(errno.EACCES)}. Choose another file.")
    if place.exists() and not place.is_file():
        return  # a device or a FIFO loses nothing
    for source in inputs:
        within = source.iterdir() if source.is_dir() else ()
        if same(place.parent, source) or any(same(place, each) for each in (source, *within)):
            raise ValueError(f"'{path}' must not be a part of '{source}', which is read. Choose another file to write.")


def same(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file or folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write and sync a temporary file, then rename it: a reader finds the old file or the new one."""
    with replacing(path, mode) as file:
        file.write(data)


def write_together(contents: dict[Path, bytes]) -> None:
    """Write and sync all files under temporary names, then rename them in their order: a full disk replaces none of them."""
    with ExitStack() as stack:
        for path, data in reversed(contents.items()):
            file = stack.enter_context(replacing(path))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A temporary file to write to; it is synced and renamed to `destination(path)` at the end, or removed if an error is raised.

    Its permissions are `mode` less the umask. The temporary name is random and must not exist, so that no link is followed.
    """
    place, replaced = destination(path)
    intact = "there was none before it" if replaced else "it was written in part"
    part = place.with_name(f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
    try:
        if not replaced:
            shared = standard_output(path)  # opened anew, it would be written from the start
            with place.open("wb") if shared is None else os.fdopen(os.dup(shared), "wb") as file:
                yield file
            return
        try:
            with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is None:  # another file, whose message is complete
            raise
        if replaced and place.exists():
            intact = "the one before it is intact"
        raise OSError(
            f"cannot write '{path}': {reason(error)}; {intact}. Make room, or choose another folder, and run it again."
        ) from error
    sync_folder(place.parent)


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
