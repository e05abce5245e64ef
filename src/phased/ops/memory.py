"""Tensors as compiled code takes them: addresses, and rows without gaps."""

from __future__ import annotations

from torch import Tensor


def address(tensor: Tensor | None) -> int:
    """Where a tensor's numbers are; 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


def contiguous_rows(tensor: Tensor) -> Tensor:
    """A tensor whose last dimension is laid out without gaps."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()
