"""A layer in one file: parameters and settings as safetensors. Reading executes no code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from phased import files

ENTRY = "phased.layer"
"""The entry of the file's metadata that has the settings, as JSON."""
VERSION = 1
"""Counts the changes of this format."""
CURE = "Name another file, or save the layer again."


class BadLayer(ValueError):
    """A file does not hold the layer that was asked for; the message names it and says what is wrong."""


def write(file: str | PathLike[str], about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a file with these parameters, and a description of the layer with its settings."""
    about = {"version": VERSION, **about}
    text = json.dumps(about | {"sha256": seal(about, tensors)}, allow_nan=False)
    files.write_whole(files.named(file), safetensors.torch.save(tensors, {ENTRY: text}))


def read(file: str | PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings and the parameters in a file, saved from a layer of the class `kind`; `BadLayer` if it holds anything else."""
    path = files.named(file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise type(error)(error.errno, f"cannot read the layer: {files.reason(error)}. {CURE}", str(path)) from error
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise BadLayer(f"'{path}' is cut off, damaged or no safetensors file: {error}. {CURE}") from error
    try:
        about = json.loads(metadata(data, ENTRY) or b"")
    except (ValueError, RecursionError) as error:
        raise BadLayer(f"'{path}' must be a layer that its `save` has written, got a file of another kind. {CURE}") from error
    version = about.get("version") if isinstance(about, dict) else None
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        cure = "Upgrade phased" if newer else "Save the layer again"
        raise BadLayer(f"'{path}' must be of version {VERSION} of the format, got {version!r}. {cure}, or name another file.")
    if seal(about, tensors) != about.get("sha256"):
        raise BadLayer(
            f"'{path}' must have the SHA-256 that it was saved with, and has another: it was damaged or changed. {CURE}"
        )
    if (found := about["class"]) != kind:
        raise BadLayer(f"'{path}' must be a {kind}, got a {found}. Call {found}.load(...), or name another file.")
    return about, tensors


def metadata(parameters: bytes, entry: str) -> bytes | None:
    """Return an entry of the metadata of a safetensors file, or None if the file has no such entry or is damaged."""
    try:
        header = json.loads(parameters[8 : 8 + int.from_bytes(parameters[:8], "little")])
        return str(header["__metadata__"][entry]).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def seal(fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of a configuration, in any order and layout, and of parameters."""
    content = {name: value for name, value in fields.items() if name != "sha256"}
    total = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        total.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        total.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
