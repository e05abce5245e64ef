"""Tensors as arguments of compiled code: addresses of values in plain memory."""

from __future__ import annotations

from torch import Tensor


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
