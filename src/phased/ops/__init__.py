"""The recurrence over a sequence: one signature, several computers, and why one was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from phased.cell import Cell, State, Weights
from phased.gate import TimeGate
from phased.ops import adjoint, reference
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
    return {backend.name: backend for backend in (_REFERENCE, _ADJOINT)}


_REFERENCE = Backend(
    "reference", "the specification: a loop differentiated by autograd, every unit at every step", reference.recurrence
)
_ADJOINT = Backend("adjoint", "plain PyTorch, backward by hand: open units only at leak 0, any device", adjoint.recurrence)


def choose(name: str) -> Backend:
    """The backend asked for, or for "auto" the fastest that can run; one that was asked for and cannot run raises."""
    if name == "auto":
        return _ADJOINT
    backend = backends()[name]
    if backend.missing is not None:
        raise RuntimeError(f'backend="{name}" cannot run here: {backend.missing} Or let backend="auto" choose.')
    return backend


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
    return choose(backend).run(cell, gate, input, time, state, weights, lengths)
