"""The recurrence over a sequence: several backends behind one signature, and how one is selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from phased import notice, schedule, tracing
from phased.cell import Cell, State, Weights
from phased.gate import TimeGate
from phased.ops import cpu, cuda, eager, reference
from phased.ops.contract import Backend, Problem, Replay, Stepper, check_weights
from phased.tracing import constant

REFERENCE = Backend(
    "reference", "the specification: a loop differentiated by autograd, every unit at every step", reference.recurrence
)

BACKENDS = (REFERENCE, eager.BACKEND, cpu.BACKEND, cuda.BACKEND)
"""Every backend. "auto" takes the first one for the device of the tensors that can run; the order is its preference."""

_WARNED: set[str] = set()


def backends() -> dict[str, Backend]:
    """Every backend by its name, including those that cannot run here."""
    return {backend.name: backend for backend in BACKENDS}


def require(name: str, device: torch.device | None = None) -> None:
    """Raise if the named backend cannot run on this device (None: the current one); "auto" always can."""
    missing = None if name == "auto" else named(name).missing(device)
    if missing is not None:
        raise RuntimeError(f'backend="{name}" cannot run here: {missing} Or let backend="auto" choose.')


def renamed(name: str) -> str:
    """The present name of a backend in what an earlier version has pickled."""
    return "eager" if name == "adjoint" else name


def named(name: str) -> Backend:
    """The backend of this name."""
    found = backends()
    if name not in found:
        raise ValueError(f"backend must be one of {', '.join(map(repr, ('auto', *found)))}, got {name!r}.")
    return found[name]


def has_graphs(name: str) -> bool:
    """Whether the named backend, or any for "auto", can run here and be recorded as a CUDA graph."""
    return any(each.graphs and each.missing() is None for each in BACKENDS if name in ("auto", each.name))


def choose(name: str, device: torch.device, problem: Problem | None = None) -> Backend:
    """The backend of this name; for "auto" the first one for the device that can run, else plain PyTorch."""
    kind = device.type
    if name == "auto":
        candidates = [backend for backend in BACKENDS if backend.device == kind]
        if problem is None:
            return first_usable(candidates, device) or eager.BACKEND
        cell, shape = problem.cell.name, problem.gate.shape
        return first_usable(candidates, device, lambda each: each.lacks(cell, shape)) or eager.BACKEND
    backend = named(name)
    require(name, device if backend.device == kind else None)
    if backend.device not in (None, kind):
        raise ValueError(
            f'backend="{name}" needs {backend.device.upper()} tensors, got {device}. '
            f'Call .to("{backend.device}"), or let backend="auto" choose.'
        )
    if problem is not None:
        require_kind(backend, problem.cell, problem.gate)
    return backend


def require_kind(backend: Backend, cell: Cell, gate: TimeGate) -> None:
    """Raise if a backend that was selected by name does not have a cell or a gate shape."""
    why = backend.lacks(cell.name, gate.shape)
    if why is not None:
        others = [f'"{each.name}"' for each in BACKENDS if each.lacks(cell.name, gate.shape) is None]
        raise ValueError(
            f'backend="{backend.name}" cannot compute this layer: {why} Backends that can: {", ".join(others)}. '
            f'Select one of them, or let backend="auto" choose.'
        )


def first_usable(
    candidates: Sequence[Backend], device: torch.device, refusal: Callable[[Backend], str | None] = lambda backend: None
) -> Backend | None:
    """The first candidate that can run and that `refusal` names no reason against; if there is none, warn of each reason."""
    reasons = []
    for backend in candidates:
        why = backend.missing(device) or refusal(backend)
        if why is None:
            return backend
        reasons.append((backend.provides, why))
    for provides, why in reasons:
        warn_once(str(device), provides, why)
    return None


@constant  # torch.compile calls it while it traces
def warn_once(device: str, without: str, why: str) -> None:
    """Warn that this device runs without its compiled code, once for each reason."""
    if why not in _WARNED:
        _WARNED.add(why)
        notice.warn(f"phased runs on {device} without its {without}, many times slower: {why}")


def recurrence(problem: Problem, backend: str = "auto") -> tuple[Tensor, State]:
    """Output (T, B, H) and final state, by the named backend; see `phased.ops.reference` for what it computes."""
    return choose(backend, problem.input.device, problem).run(problem)


def replay(problem: Problem, backend: str = "auto") -> Replay | None:
    """Runs the problem with another input and other times of the same sizes; None if the backend cannot, or not this problem."""
    chosen = choose(backend, problem.input.device, problem)
    return None if chosen.replay is None else chosen.replay(problem)


def stepper(
    cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None, backend: str = "auto"
) -> Stepper:
    """A stack of layers, event by event, on the CPU; with a table, events are indices into it.

    A backend for another device means "auto": the first one for the CPU. Where that is missing or has no stepper, plain PyTorch.
    """
    units, dtype, device = weights[0].hh.shape[-1], weights[0].hh.dtype, torch.device("cpu")
    for layer, (w, gate) in enumerate(zip(weights, gates, strict=True)):
        check_weights(cell, w, gate, w.ih.shape[-1] if layer == 0 else units, dtype, device)
    asked = None if backend == "auto" else named(backend)
    if asked is None or asked.device not in (None, device.type):
        candidates: Sequence[Backend] = BACKENDS
    else:
        require_kind(asked, cell, gates[0])
        candidates = (asked,)
    able = [each for each in candidates if each.device == device.type and each.stepper is not None]
    chosen = first_usable(able, device, lambda each: each.lacks(cell.name, gates[0].shape)) or eager.BACKEND
    assert chosen.stepper is not None
    return chosen.stepper(cell, weights, gates, table)


def count(gate: TimeGate, time: Tensor, lengths: Tensor | None) -> Tensor:
    """How often each unit is open in each sequence, (B, H) int64, without a leak, at times (T, B) with lengths (B,) or None."""
    own = _part("count", time.device) if time.device == gate.period.device and tracing.readable(time) else None
    return schedule.count(gate._replace(leak=0.0), time, lengths) if own is None else own(gate, time, lengths)


def is_clock(time: Tensor, lengths: Tensor | None) -> bool:
    """Whether times (T, B) are float64, finite and never decreasing, except in padding; False where no backend looks at once.

    torch needs eight operators for that, which take as long as the rest of a small layer's checks together.
    """
    own = _part("is_clock", time.device)
    return own is not None and own(time, lengths)


def _part(name: str, device: torch.device) -> Any:
    """An optional part of the first backend for this device that can run and has it; None without one."""
    able = (getattr(each, name) for each in BACKENDS if each.device == device.type and each.missing(device) is None)
    return next((part for part in able if part is not None), None)
