"""Files that are whole or not there, whatever stops the writing: a kill, a full disk, a power cut."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

CHUNK = 2**20


def writable(folder: Path, room: int = 1) -> Path:
    """The folder, made if need be; an OSError that names it and the cure if so many bytes cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for left in range(room, 0, -CHUNK):
                file.write(bytes(min(left, CHUNK)))
            file.flush()
    except OSError as error:
        raise OSError(f"cannot write to the folder '{folder}': {reason(error)}. Make room there, or choose another.") from error
    return folder


def write_whole(path: Path, data: bytes) -> None:
    """Write a file aside, make sure it is on the disk, and put it in place: a reader finds the old one or the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        intact = "the one before it is intact" if path.exists() else "there was none before it"
        raise OSError(
            f"cannot write '{path}': {reason(error)}; {intact}. Make room, or choose another folder, and run it again."
        ) from error


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in a folder is on the disk too, where the system has a way to do that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_parts(folder: Path) -> None:
    """Remove what writers that were killed left behind."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors, numbers, texts, lists and dicts of them."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    write_whole(path, buffer.getvalue())


def load(path: Path) -> dict[str, Any] | None:
    """What `save` wrote, on the CPU; None if there is no such file. Nothing in it is executed."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch names no exception of its own for a file it cannot read
        raise ValueError(f"'{path}' is not a checkpoint that can be read. Delete it to start anew.") from error
    return state


def reason(error: OSError) -> str:
    """Why the system refused, in its words."""
    return error.strerror or str(error)
