"""The compiled core `phased._core`, or the reason why it is missing; tensors as its arguments: addresses of values in memory."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

KINDS = {torch.float32: "32", torch.float64: "64"}  # the suffix of the core's functions and classes for a dtype


def load() -> tuple[Any, str | None]:
    """The compiled core, or why there is none and the cure."""
    if not os.environ.get("PHASED_INSTRUCTION_SET", "set"):  # empty: as if it were not set
        del os.environ["PHASED_INSTRUCTION_SET"]
    try:
        return import_module("phased._core"), None
    except ImportError as error:
        return None, f"the compiled core is missing ({error}). Install a C++17 compiler (GCC or Clang), then: {reinstall()}"


def reinstall() -> str:
    """The command that builds the core. A released package must not come from pip's cache, which holds the one without a core."""
    checkout = Path(__file__).parents[3]
    if (checkout / "CMakeLists.txt").is_file():
        return f"pip install --force-reinstall --no-deps --editable {checkout}"
    return "pip install --force-reinstall --no-deps --no-cache-dir --no-binary phased phased"


core, MISSING = load()


def missing(device: torch.device | None = None) -> str | None:
    """Why the core cannot run and the cure, or None."""
    return MISSING


def address(tensor: Tensor | None) -> int:
    """The address of a tensor's values; 0 for None. A tensor with its values elsewhere raises: compiled code would misread it."""
    if tensor is None:
        return 0
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:  # torch's batched gradients, for one
        pointer = 0
    if pointer or not tensor.numel():
        return pointer
    raise ValueError(
        f"every tensor must have its values in memory of its own, got a {type(tensor).__name__} of shape {tuple(tensor.shape)} "
        f"without (a wrapper subclass, a fake or batched tensor, freed storage). Pass plain tensors, or make the layer with "
        f'backend="reference".'
    )


def resolved(tensor: Tensor) -> Tensor:
    """The tensor in memory that holds its values: a view that torch negates on reading is copied."""
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def contiguous(tensor: Tensor) -> Tensor:
    """The tensor in contiguous memory that holds its values."""
    return resolved(tensor).contiguous()


def contiguous_rows(tensor: Tensor) -> Tensor:
    """The tensor with a contiguous last dimension, in memory that holds its values."""
    tensor = resolved(tensor)
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()
