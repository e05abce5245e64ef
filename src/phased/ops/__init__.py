"""The recurrence over a sequence: one signature, several computers, and why one was chosen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phased.cell import Cell, State, Weights
from phased.gate import TimeGate
from phased.ops import adjoint, cpu, reference
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
    return {backend.name: backend for backend in (_REFERENCE, _ADJOINT, _CPU)}


_REFERENCE = Backend(
    "reference", "the specification: a loop differentiated by autograd, every unit at every step", reference.recurrence
)
_ADJOINT = Backend("adjoint", "plain PyTorch, backward by hand: open units only at leak 0, any device", adjoint.recurrence)

_CPU = Backend("cpu", "the compiled core on CPU tensors: open units only at leak 0", cpu.recurrence, cpu.MISSING)


def require(name: str) -> None:
    """A backend that was asked for and cannot run here raises; "auto" always can."""
    missing = None if name == "auto" else backends()[name].missing
    if missing is not None:
        raise RuntimeError(f'backend="{name}" cannot run here: {missing} Or let backend="auto" choose.')


def choose(name: str, device: torch.device) -> Backend:
    """The backend asked for; for "auto" the compiled core on CPU tensors if there is one, and plain PyTorch elsewhere."""
    if name == "auto":
        return _CPU if device.type == "cpu" and _CPU.missing is None else _ADJOINT
    require(name)
    if name == "cpu" and device.type != "cpu":
        raise ValueError(f'backend="cpu" needs CPU tensors, got {device}. Call .to("cpu"), or let backend="auto" choose.')
    return backends()[name]


def recurrence(
    cell: Cell,
    gate: TimeGate,
    input: Tensor,
    time: Tensor,
    state: State,
    weights: Weights,
    lengths: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """Output (T, B, H) and final state, by the backend named; see `phased.ops.reference` for what it computes."""
    return choose(backend, input.device).run(cell, gate, input, time, state, weights, lengths)
