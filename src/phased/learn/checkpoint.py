"""Checkpoints: tensors and numbers in one file, with a digest that finds every bit that has changed since."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from phased import files

# The last record of the zip archive that torch writes, 22 bytes, begins so. Checkpoints without a digest end with it.
END_OF_ZIP = b"PK\x05\x06"
END_SIZE = 22


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors, numbers, texts, lists and dicts of them, and the digest. `torch.load` reads the file too."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.write_whole(path, files.seal(buffer.getvalue()))


def load(path: Path) -> dict[str, Any] | None:
    """What `save` wrote, on the CPU; None if there is no such file. Nothing in it is executed. Torch itself checks no digest."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OSError(f"cannot read '{path}': {files.reason(error)}. Move it away to start anew.") from error
    try:
        body = data if data[-END_SIZE:].startswith(END_OF_ZIP) else files.unseal(data)
    except files.Damaged as error:
        raise ValueError(f"'{path}' is damaged, or not a checkpoint: {error}. Delete it to start anew.") from error
    try:
        state = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except Exception as error:  # torch names no exception of its own for a file it cannot read
        raise ValueError(f"'{path}' is not a checkpoint that torch can read. Delete it to start anew.") from error
    if not isinstance(state, dict):
        raise ValueError(f"'{path}' must hold the dict of a checkpoint, got {type(state).__name__}. Delete it to start anew.")
    return state
