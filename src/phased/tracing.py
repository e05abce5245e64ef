"""Tracers and transforms around a call: whether values may be read, and which of them a backend refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad


def readable(tensor: Tensor) -> bool:
    """Whether Python may branch on the tensor's values.

    False for tensors without values, while a graph is compiled, inside a torch.func transform and under a dispatch mode.
    """
    return not (
        torch.compiler.is_compiling()
        or is_valueless(tensor)
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
    )


def is_valueless(tensor: Tensor) -> bool:
    """Whether the tensor has a shape and no values: on the meta device, or a fake one."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def refuse_tracers(layer: str, backend: str) -> None:
    """Raise under torch.jit.trace, and under torch.func unless the backend is "reference", where autograd records every step.

    Other backends write into memory that tracers do not record: a traced graph would return it uninitialised.
    """
    if torch._C._is_tracing():
        raise RuntimeError(
            f"{layer} must not run under torch.jit.trace, which does not record its recurrence. "
            f"Use torch.export.export(model, args) instead."
        )
    if backend != "reference" and torch._C._are_functorch_transforms_active():
        raise RuntimeError(_reference_only("torch.func transforms (grad, vmap, jvp, ...)", layer, backend))


def in_forward_mode() -> bool:
    """Whether a level of forward-mode differentiation is open; False while a graph is compiled, where the compiler handles it."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def refuse_tangents(layer: str, backend: str, tensors: Iterable[Tensor]) -> None:
    """Raise if a tensor has a tangent, which only the reference propagates."""
    unpack: Any = forward_ad.unpack_dual
    if backend != "reference" and any(unpack(tensor).tangent is not None for tensor in tensors):
        raise RuntimeError(_reference_only("Forward-mode derivatives (torch.autograd.forward_ad)", layer, backend))


def _reference_only(what: str, layer: str, backend: str) -> str:
    return (
        f'{what} need a {layer} with backend="reference", got backend="{backend}". '
        f'Set layer.backend = "reference", or differentiate with torch.autograd.'
    )
