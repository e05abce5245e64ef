"""The recurrence on an NVIDIA GPU: one team of warps a sequence, open units only at leak 0, all of them otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from phased.ops import compiler
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.gradients import Backward
from phased.ops.landing import landing
from phased.ops.launch import Call, Room, known_parts, parts_of_schedule, taped
from phased.ops.layout import HELD, arrival, plan
from phased.ops.operator import operator

MANY = 4096  # above this many blocks a separate kernel computes the prefix sum
SMALL = 2**27  # bytes that may be taken for the time of a forward pass without asking how many events there are


def constant(function: Callable[..., str | None]) -> Callable[..., str | None]:
    """What torch.compiler.assume_constant_result does, without importing torch.compile's 800 modules for it."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def missing(device: torch.device | None = None) -> str | None:
    """Why the kernels cannot run on a GPU, or on the current one, and what would cure that; or None."""
    return _missing(None if device is None else device.index)


@constant
def _missing(index: int | None) -> str | None:
    if not torch.cuda.is_available():
        return compiler.missing(0)
    return compiler.missing(torch.cuda.current_device() if index is None else index)


def too_large(units: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why a layer of so many units, half of them open at once, does not fit the kernels and what would cure that, or None."""
    return _too_large(units, dtype, device.index)


@constant
def _too_large(units: int, dtype: torch.dtype, index: int | None) -> str | None:
    device = torch.cuda.current_device() if index is None else index
    try:
        for name in ("forward", "backward", "dense_forward", "dense_backward"):
            plan(name, units, 1, units // 2, units // 2, torch.finfo(dtype).bits // 8, device)
    except ValueError as error:
        return str(error)
    return None


# The most events a step that a layer's last batches had, by the address of the gate's periods. It is only ever a guess: whoever
# relies on it finds out if it was too low.
EXPECTED: dict[int, float] = {}
LAYERS = 4096  # that are remembered at most
FORGETS = 0.98  # of a batch, by the next one


class Count:
    """How many events a row has at most, and how many there are in all: the GPU tells when it has counted."""

    def __init__(self, call: Call) -> None:
        self._device, self._rows, self._layer = call.device, call.rows, call.problem.gate.period.data_ptr()
        self._found = call.found - call.schedule.data_ptr()
        self.ticket, self.place = landing(self._device).ticket()

    @property
    def expected(self) -> int | None:
        """A guess, by the last batches and with something to spare; None for a first batch."""
        of_row = EXPECTED.get(self._layer)
        return None if of_row is None else int(1.125 * of_row * self._rows) // 1024 * 1024 + 2048

    def wait(self, schedule: Tensor) -> Tensor:
        """The two numbers. If no kernel has reported them, they are read from the schedule."""
        told = landing(self._device).wait(self.ticket) or schedule[self._found : self._found + 16].view(torch.int64).tolist()
        if self._layer not in EXPECTED and len(EXPECTED) >= LAYERS:
            EXPECTED.clear()
        EXPECTED[self._layer] = max(told[1] / max(1, self._rows), FORGETS * EXPECTED.get(self._layer, 0.0))
        return torch.tensor(told, device="cpu")


def forward(problem: Problem, keep: bool, guess: bool = False) -> Result:
    """Output, final state and, to keep, the schedule, the tape, and how many events there are.

    Memory for events is taken by their number, which the GPU must count first. A CUDA graph that is being recorded cannot wait
    for that: it gets memory for the most events there can be. A small batch takes as much while it runs, and need not wait if
    nothing is kept; or if one may `guess` how much, by the last ones: if that is too little the backward pass will see to it.
    """
    with on(problem.input.device):
        call = Call(problem)
        call.prepare()
        events, most = call.rows * call.units, call.units
        room = Room(events, events if keep else 0, most)
        if not call.dense and events and not torch.cuda.is_current_stream_capturing() and (keep or not small(call)):
            count = Count(call)
            expected = count.expected if guess and small(call) else None
            if expected is not None:
                room = Room(events, min(events, expected), most)
                output, final, tape = call.take(room, count.place, count.ticket)
                return Result(output, tuple(final), [call.schedule, tape], count.wait)
            call.add_up(count.place, count.ticket)
            most, events = count.wait(call.schedule).tolist()
            room = Room(events, events if keep else 0, most)
        elif not call.dense and call.blocks > MANY:
            call.add_up()
        output, final, tape = call.take(room)
        return Result(output, tuple(final), [call.schedule, tape, torch.tensor([most, events], device="cpu")] if keep else [])


def begin(problem: Problem) -> Result:
    """The forward pass of training, which does not wait where it can do without."""
    return forward(problem, keep=True, guess=True)


def small(call: Call) -> bool:
    """Whether it is better to have room for the most events there can be than to wait for their number."""
    events = call.rows * call.units
    if call.units > HELD or call.blocks > MANY or events * arrival(call.size) > SMALL:
        return False
    return call.plan("forward", events, call.units).name == "held_forward"


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, this GPU is the current one; where it is already, nothing is to be done, which is faster."""
    return nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device)


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool = True
) -> Gradients:
    """Gradients of everything, given those of the output and the final state; that of the input where it is wanted."""
    with on(problem.input.device), torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled("cuda") else nullcontext():
        schedule, tape, numbers = result.saved
        check_sizes(problem, schedule, tape, numbers)
        call = Call(problem, schedule)
        most, count = numbers.tolist()
        if count > tape.shape[0]:  # more than was expected: all is done again, and waited for
            schedule, tape, numbers = forward(problem, keep=True).saved
            call = Call(problem, schedule)
            most, count = numbers.tolist()
        back = Backward(call, result.output, tape, most, count, to_output, to_final)
        to_x = (back.dense if call.dense else back.sparse)(with_input)
        return Gradients(to_x, back.to_state, back.to_weights, back.to_gate)


def check_sizes(problem: Problem, schedule: Tensor, tape: Tensor, numbers: Tensor) -> None:
    """What a forward pass saved has the sizes of this problem's; what is in the GPU's memory is not read."""
    steps, batch, features = problem.input.shape
    units, dense, size = problem.weights.hh.shape[1], problem.gate.leak > 0, problem.input.element_size()
    rows = steps * batch
    expected = known_parts(rows, units, features, size, dense)[-1], taped(size, dense), 2
    if (schedule.numel(), tape.shape[1], numbers.numel()) != expected or not (
        0 <= int(numbers[0]) <= units and 0 <= int(numbers[1]) <= rows * units
    ):
        raise ValueError("saved must be what the forward pass of the same problem saved, got other sizes.")


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    x = problem.input
    steps, batch, features = x.shape
    units, dense, size = problem.weights.hh.shape[1], problem.gate.leak > 0, x.element_size()
    schedule = parts_of_schedule(steps * batch, units, features, size, dense)[-1]
    events = steps * batch * units if dense else unknown()
    return [
        x.new_empty(schedule, dtype=torch.uint8),
        x.new_empty(events, taped(size, dense), dtype=torch.uint8),
        torch.empty(2, dtype=torch.int64, device="cpu"),
    ]


recurrence = operator("cuda", forward, backward, saved_like, begin, empty_state=True)
