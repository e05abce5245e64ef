"""What every backend computes, and what it says about itself: a problem, its result, its gradients, and the backend.

Compiled code takes addresses and cannot check what they point to. So a problem's tensors are checked here, before any backend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from phased.cell import Cell, State, Weights
from phased.gate import TimeGate

CURE = "Look at what replaced it: functional_call, .data, load_state_dict(assign=True), or a module left on another device."


class Problem(NamedTuple):
    """The arguments of a recurrence: input (T, B, D), time (T, B), the initial state, each (B, H), lengths (B,) or None.

    A state without tensors is all zeros.
    The gate's numbers are as an optimiser left them: a backend bounds them before it computes with them (TimeGate.bounded).
    `autocast` is the dtype of the autocast region around the call, or None. It changes no result of a forward pass: a backend may
    save numbers for the backward pass in it.
    """

    cell: Cell
    gate: TimeGate
    input: Tensor
    time: Tensor
    state: State
    weights: Weights
    lengths: Tensor | None
    autocast: torch.dtype | None = None

    def started(self) -> Problem:
        """The problem with zeros for a state without tensors."""
        if self.state:
            return self
        zeros = self.input.new_zeros(self.cell.states, self.input.shape[1], self.weights.hh.shape[1])
        return self._replace(state=zeros.unbind(0))

    def check(self, empty_state: bool = False) -> None:
        """Every tensor has the shape, dtype and device that compiled code assumes, or an error names the first that has not."""
        x = self.input
        if x.dim() != 3:
            raise ValueError(f"input must have shape (steps, batch, features), got {tuple(x.shape)}.")
        steps, batch, features = x.shape
        check_weights(self.cell, self.weights, self.gate, features, x.dtype, x.device)
        units = self.weights.hh.shape[1]
        expect("time", self.time, (steps, batch), None, x.device)
        if len(self.state) != self.cell.states and not (empty_state and not self.state):
            raise ValueError(f"state must be {self.cell.states} tensors of shape ({batch}, {units}), got {len(self.state)}.")
        for name, state in zip(("h_0", "c_0"), self.state, strict=False):
            expect(name, state, (batch, units), x.dtype, x.device)
        expect("lengths", self.lengths, (batch,), torch.int64, x.device)


class EventCount(NamedTuple):
    """Integers that a forward pass saves besides its tensors: `numbers`, or what `wait` of the first saved tensor returns."""

    numbers: tuple[int, ...] = ()
    wait: Callable[[Tensor], tuple[int, ...]] | None = None

    def complete(self, saved: Tensor) -> tuple[int, ...]:
        """The integers; blocks until they are known."""
        return self.numbers if self.wait is None else self.wait(saved)


class FastBackward(Protocol):
    """A backward pass that its forward pass has made ready as far as it could, for the eager mode."""

    def __call__(
        self, kept: Sequence[Tensor | None], events: EventCount, to_output: Tensor | None, to_final: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...] | None:
        """Gradients to input, state, weights and gates, in this order; None if the backend's backward pass has to compute them.

        `kept`: input, state, weights and gates; output, final state and the saved tensors; times and lengths.
        """


class Result(NamedTuple):
    """The result of a forward pass: output (T, B, H) and final state, each (B, H); tensors and integers for the backward pass."""

    output: Tensor
    final: State
    saved: list[Tensor]
    event_count: EventCount = EventCount()
    fast_backward: FastBackward | None = None


class Gradients(NamedTuple):
    """The result of a backward pass: gradients to input, initial state, weights, and the gate's period, shift and ratio_on."""

    input: Tensor | None
    state: State
    weights: Weights
    gate: tuple[Tensor, ...]


Replay = Callable[[Tensor, Tensor], "tuple[Tensor, State] | None"]
"""Runs a problem with another input and other times of the same sizes: output and final state; None if it cannot right now."""


class StreamState(Protocol):
    """The state of one sequence: h and c of each layer of a stack, and the time of its last event. About a kilobyte."""

    @property
    def time(self) -> float:
        """The time of the last event; -inf before the first."""

    def copy(self) -> Self:
        """Another state with the same values."""


class Stepper(Protocol):
    """A stack of layers, event by event. Its weights never change; sequences share it, also in several threads."""

    native: Any  # the stack of the compiled core, for other code of the core that steps it; None elsewhere

    def start(self) -> Any:
        """A `StreamState` of zeros, before the first event."""

    def pack(self, state: Any) -> bytes:
        """A state as bytes: the time as float64, then h and c, (layers, H) each, in the dtype of the stack."""

    def unpack(self, data: bytes) -> Any:
        """The state from what `pack` returned."""

    def run(self, state: Any, x: Tensor, time: Tensor) -> Tensor:
        """Take events into a state, rows (N, D) or indices (N,) into the table, at float64 times (N,).

        Returns the last layer's outputs, (N, H). If it is interrupted, the state has taken some of the events.
        """

    def push(self, state: Any, x: Any, time: Any) -> Any:
        """Take one event into a state by the shortest path: an array (D,) of the stack's dtype, or an index.

        Returns the last layer's output, an array (H,). None for an event that is not of these types, not finite or before the
        last one: the state is as it was, and the caller finds out what is wrong. May raise a TypeError instead.
        """


MakeStepper = Callable[[Cell, Sequence[Weights], Sequence[TimeGate], "Tensor | None"], Stepper]
"""Copies the weights of a stack of layers; with a table, events are indices into it."""


class Missing(Protocol):
    """Why a backend cannot run on a device (None: the current one) and the cure, or None if it can."""

    def __call__(self, device: torch.device | None = None) -> str | None:
        """The reason, as full sentences."""


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Inside, autocast rounds nothing on this type of device. If it is off already, a null context is faster."""
    is_on = device != "meta" and torch.is_autocast_enabled(device)  # torch has no autocast for meta tensors
    return torch.autocast(device, enabled=False) if is_on else nullcontext()


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of the autocast region around the call, or None; None for meta tensors."""
    if device.type == "meta":
        return None
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


@dataclass(frozen=True)
class Backend:
    """One way to compute the recurrence.

    `backend="auto"` considers it for tensors on `device` only.
    """

    name: str
    about: str  # one line for `phased info`
    run: Callable[[Problem], tuple[Tensor, State]]  # output (T, B, H) and final state; see `phased.ops.reference`
    device: str | None = None  # type of the device that its tensors must be on; None for any
    cells: Collection[str] | None = None  # names of the cells that it computes; None: all
    shapes: Collection[str] | None = None  # names of the gate shapes, likewise
    missing: Missing = lambda device=None: None
    replay: Callable[[Problem], Replay | None] | None = None  # returns None for a problem that is like no earlier one
    stepper: MakeStepper | None = None  # event by event, for streams; None: streams use plain PyTorch
    # How often each unit is open in each sequence, (B, H) int64, at times (T, B) with lengths or None; None: counted by torch.
    count: Callable[[TimeGate, Tensor, Tensor | None], Tensor] | None = None
    # Whether times (T, B) are float64, finite and never decreasing, except in padding; None: not known without other checks.
    is_clock: Callable[[Tensor, Tensor | None], bool] | None = None
    graphs: bool = False  # whether its passes may be recorded as a CUDA graph: they read no values
    provides: str = "compiled code"  # what the device lacks where the backend is missing; for the warning of "auto"

    def lacks(self, cell: str, shape: str) -> str | None:
        """Why it computes no layer of this cell and this gate shape, or None."""
        for what, name, known in (("cell", cell, self.cells), ("gate shape", shape, self.shapes)):
            if known is not None and name not in known:
                return f"it has no {what} {name!r}, only {', '.join(map(repr, sorted(known)))}."
        return None


def check_weights(cell: Cell, weights: Weights, gate: TimeGate, features: int, dtype: torch.dtype, device: torch.device) -> None:
    """One layer's weights and gate fit each other and an input of so many features."""
    ih, hh, bias_ih, bias_hh, peephole = weights
    units = hh.shape[-1]
    stacked = cell.gates * units
    expect("weight_hh", hh, (stacked, units), dtype, device)
    expect("weight_ih", ih, (stacked, features), dtype, device)
    expect("bias_ih", bias_ih, (stacked,), dtype, device)
    expect("bias_hh", bias_hh, (stacked,), dtype, device)
    expect("the peepholes", peephole, (3, units), dtype, device)
    for name, value in zip(("period", "shift", "ratio_on"), gate.parameters(), strict=True):
        expect(name, value, (units,), torch.float64, device)


def expect(name: str, tensor: Tensor | None, shape: Sequence[int], dtype: torch.dtype | None, device: torch.device) -> None:
    """Raise unless a tensor has this shape, dtype (None: any real one) and device. None has nothing to check."""
    if tensor is None:
        return
    has_dtype = not tensor.is_complex() if dtype is None else tensor.dtype == dtype
    if has_dtype and tensor.shape == shape and tensor.device == device:
        return
    wanted = f"shape {tuple(shape)}{'' if dtype is None else f', {dtype},'} on {device}"
    error = ValueError if has_dtype or dtype is None else TypeError
    raise error(f"{name} must have {wanted}, got {tuple(tensor.shape)}, {tensor.dtype}, on {tensor.device}. {CURE}")
