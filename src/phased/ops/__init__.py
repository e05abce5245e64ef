"""The recurrence over a sequence: several backends behind one signature, and how one is selected."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phased.cell import Cell, State, Weights
from phased.gate import TimeGate
from phased.ops import adjoint, cpu, cuda, reference
from phased.ops.fallback import warn_once
from phased.ops.operator import Recurrence


@dataclass(frozen=True)
class Backend:
    """One way to compute the recurrence; `missing` says why it cannot run here and what would cure that, or is None."""

    name: str
    about: str
    run: Recurrence
    missing: str | None = None


def backends() -> dict[str, Backend]:
    """Every backend by its name, the ones that cannot run here too."""
    return _BACKENDS | {"cuda": replace(_CUDA, missing=cuda.missing())}


_REFERENCE = Backend(
    "reference", "the specification: a loop differentiated by autograd, every unit at every step", reference.recurrence
)
_ADJOINT = Backend("adjoint", "plain PyTorch, backward by hand: open units only at leak 0, any device", adjoint.recurrence)

_CPU = Backend("cpu", "the compiled core on CPU tensors: open units only at leak 0", cpu.recurrence, cpu.MISSING)
_CUDA = Backend(
    "cuda", "kernels for NVIDIA GPUs: open units only at leak 0", cuda.recurrence
)  # what it lacks is asked when needed

_BACKENDS = {backend.name: backend for backend in (_REFERENCE, _ADJOINT, _CPU, _CUDA)}


def require(name: str) -> None:
    """A backend that was asked for and cannot run here raises; "auto" always can."""
    missing = None if name == "auto" else cuda.missing() if name == "cuda" else _BACKENDS[name].missing
    if missing is not None:
        raise RuntimeError(f'backend="{name}" cannot run here: {missing} Or let backend="auto" choose.')


def choose(name: str, device: torch.device) -> Backend:
    """The backend asked for; for "auto" the core on a CPU, the kernels on a GPU, and plain PyTorch where these are missing."""
    if name == "auto":
        if device.type == "cuda":
            return _cuda_or_adjoint(device)
        return _CPU if device.type == "cpu" and cpu.usable() else _ADJOINT
    require(name)
    if name in ("cpu", "cuda") and device.type != name:
        kind = {"cpu": "CPU", "cuda": "CUDA"}[name]
        raise ValueError(
            f'backend="{name}" needs {kind} tensors, got {device}. Call .to("{name}"), or let backend="auto" choose.'
        )
    return _BACKENDS[name]


def _cuda_or_adjoint(device: torch.device) -> Backend:
    """The kernels; where they cannot run, plain PyTorch."""
    why = cuda.missing(device)
    return _CUDA if why is None else _without_kernels(device, why)


def _without_kernels(device: torch.device, why: str) -> Backend:
    """Plain PyTorch, and a warning, once for each reason."""
    warn_once(device, "kernels", why)
    return _ADJOINT


def recurrence(
    cell: Cell,
    gate: TimeGate,
    input: Tensor,
    time: Tensor,
    state: State | None,
    weights: Weights,
    lengths: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """Output (T, B, H) and final state, by the backend named; see `phased.ops.reference` for what it computes.

    Without a state it starts from zeros.
    """
    chosen = choose(backend, input.device)
    if backend == "auto" and chosen is _CUDA:
        why = cuda.too_large(weights.hh.shape[1], input.dtype, input.device)
        if why is not None:
            chosen = _without_kernels(input.device, why)
    if state is None:
        units = weights.hh.shape[1]
        kernels = chosen is _CUDA and not torch.compiler.is_compiling()  # they accept an empty state
        state = () if kernels else input.new_zeros(cell.states, input.shape[1], units).unbind(0)
    return chosen.run(cell, gate, input, time, state, weights, lengths)
