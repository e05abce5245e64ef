"""Tracers and transforms around a call, and every private name of torch with its replacement.

Torch may rename or remove a private name in any version. Each is looked up here, and other modules use the functions of this
module. Last tested with the torch version in TESTED, and with each name removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

TESTED = "2.13"
"""The version of torch that has all names below."""


def private(path: str, otherwise: Any) -> Any:
    """The object with this private name, or `otherwise` in versions of torch without the name."""
    module, _, name = path.rpartition(".")
    with suppress(ImportError, AttributeError):
        return getattr(import_module(module), name)
    return otherwise


_is_tracing = private("torch._C._is_tracing", private("torch.jit.is_tracing", None))
# Without both names no transform of torch.func is noticed: torch refuses every backend inside of one with a general message.
_transform = private("torch._C._functorch.peek_interpreter_stack", lambda: None)
_is_transformed = private("torch._C._are_functorch_transforms_active", lambda: _transform() is not None)
# Without this name values of tensors are read under dispatch modes, which may then record the checks.
_dispatch_modes = private("torch._C._len_torch_dispatch_stack", lambda: 0)
# Without this name fake tensors count as tensors with values, and torch raises an error if their values are read.
_FakeTensor = private("torch._subclasses.fake_tensor.FakeTensor", ())
# Without this name every forward pass counts its open events first, as under hooks of saved tensors.
_hooks = private("torch._C._autograd._top_saved_tensors_default_hooks", lambda ignore: ())
# Without this name a call is compared with earlier ones in Python, which takes ten times as long.
TensorGuards = private("torch._C._dynamo.guards.TensorGuards", None)
current_raw_stream: Callable[[int], int] = private(
    "torch._C._cuda_getCurrentRawStream", lambda device: torch.cuda.current_stream(device).cuda_stream
)
"""The address of the current CUDA stream of a GPU. The replacement takes longer."""
# Operations on lists of tensors, each in one call. The replacements call them one by one.
norms: Callable[[list[Tensor]], list[Tensor]] = private(
    "torch._foreach_norm", lambda tensors: [torch.linalg.vector_norm(tensor) for tensor in tensors]
)
multiply_: Callable[[list[Tensor], Tensor], Any] = private(
    "torch._foreach_mul_", lambda tensors, factor: [tensor.mul_(factor) for tensor in tensors]
)
lerp_: Callable[[list[Tensor], list[Tensor], float], Any] = private(
    "torch._foreach_lerp_",
    lambda tensors, ends, weight: [tensor.lerp_(end, weight) for tensor, end in zip(tensors, ends, strict=True)],
)
# Without this name every call is taken for one inside a level of forward-mode differentiation: tangents are looked for in each
# tensor, no call is replayed, and units that never open are not reported.
_LEVEL = "_current_level"

Function = TypeVar("Function", bound=Callable[..., Any])


def constant(function: Function) -> Function:
    """Mark a function of plain Python values that torch.compile calls while it traces.

    torch.compiler.assume_constant_result does the same, and imports the 800 modules of torch.compile. Versions of torch without
    this attribute trace the function.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def apply_of(function: type[torch.autograd.Function]) -> Any:
    """`function.apply` without support for torch.func, which takes less time, or `function.apply` in versions without it."""
    return getattr(super(torch.autograd.Function, function), "apply", function.apply)


def saving_is_hooked() -> bool:
    """Whether hooks receive the saved tensors (checkpointing, offloading): recomputed ones must then have the same shapes."""
    return _hooks(True) is not None


def readable(tensor: Tensor) -> bool:
    """Whether Python may branch on the tensor's values.

    False for tensors without values, while a graph is compiled, inside a torch.func transform and under a dispatch mode.
    """
    return not (torch.compiler.is_compiling() or is_valueless(tensor) or _is_transformed() or _dispatch_modes())


def is_valueless(tensor: Tensor) -> bool:
    """Whether the tensor has a shape and no values: on the meta device, or a fake one."""
    return tensor.is_meta or isinstance(tensor, _FakeTensor)


def refuse_tracers(layer: str, backend: str) -> None:
    """Raise under torch.jit.trace, and under torch.func unless the backend is "reference", where autograd records every step.

    Other backends write into memory that tracers do not record: a traced graph would return it uninitialised.
    """
    if _is_tracing():
        raise RuntimeError(
            f"{layer} must not run under torch.jit.trace, which does not record its recurrence. "
            f"Use torch.export.export(model, args) instead."
        )
    if backend != "reference" and _is_transformed():
        raise RuntimeError(_reference_only("torch.func transforms (grad, vmap, jvp, ...)", layer, backend))


def in_forward_mode() -> bool:
    """Whether a level of forward-mode differentiation is open; False while a graph is compiled, where the compiler handles it."""
    return not torch.compiler.is_compiling() and bool(getattr(forward_ad, _LEVEL, 0) >= 0)


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
