"""Tensors as compiled code takes them: addresses of values in plain memory."""

from __future__ import annotations

from torch import Tensor


def address(tensor: Tensor | None) -> int:
    """Where a tensor's values are; 0 for None. A tensor that has none there raises: compiled code would read something else."""
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


def contiguous(tensor: Tensor) -> Tensor:
    """The tensor without gaps, and with its values as they are: views that torch negates when they are read are copied."""
    return tensor.resolve_neg().contiguous()


def contiguous_rows(tensor: Tensor) -> Tensor:
    """A tensor whose last dimension is laid out without gaps, with its values as they are."""
    tensor = tensor.resolve_neg()
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()
