"""Forward and backward pass by the CUDA kernels: open units only at leak 0, except in very large layers; else all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from phased.ops.contract import Gradients, Problem, Result, constant
from phased.ops.cuda import kernels
from phased.ops.cuda.constants import GROUPED, HELD, struct_bytes
from phased.ops.cuda.count import Count
from phased.ops.cuda.gradients import Backward
from phased.ops.cuda.launch import LARGEST, Call, Capacity, is_dense, parts_of_schedule, tape_dtype_of, taped
from phased.ops.cuda.layout import plan
from phased.ops.cuda.pinned import Ticket
from phased.ops.cuda.precision import without_autocast
from phased.ops.operator import operator

MANY = 3072  # above this many blocks a separate kernel computes the prefix sum
# One matrix product of the input with the weights of all units is faster than products with those of open units alone: from WIDE
# features on, if more than a share of OPEN units are open; from WIDE_DENSE on, if all units have events.
WIDE, OPEN, WIDE_DENSE = 32, 0.1, 8
LONG = 2.0  # seconds that a batch waits for its number when the GPU has more to do than to count
# A batch whose events take at most this share of a GPU's memory with all units open allocates for all, without their number.
SMALL = 1 / 256


def missing(device: torch.device | None = None) -> str | None:
    """Why the kernels cannot run on a GPU (None: the current one) and the cure, or None."""
    return _missing(None if device is None else device.index)


@constant
def _missing(index: int | None) -> str | None:
    if not torch.cuda.is_available():
        return kernels.missing(0)
    return kernels.missing(torch.cuda.current_device() if index is None else index)


def forward(problem: Problem, keep: bool, guess: bool = False) -> Result:
    """Output, final state and, to keep, the schedule, the tape, and how many events there are.

    Memory for events is allocated by their number, which the GPU must count first. While a CUDA graph is recorded this would
    block, so the capacity is that of all units being open. A small batch allocates that much for its run, and does not block if
    nothing is kept, or with `guess`: then the tape's capacity is a guess by the last batches. If it is too small, the backward
    pass repeats the forward pass. Other batches have their number guessed, and wait for it when all kernels are launched, so that
    the GPU need not; if it is not as guessed, they are launched again.
    """
    with on(problem.input.device):
        call = Call(problem)
        call.prepare()
        events, most = call.rows * call.units, call.units
        crowded = None if guessable(call) else False
        capacity = Capacity(events, events if keep else 0, most, call.dense and call.features >= WIDE_DENSE, crowded)
        if not call.dense and events and not torch.cuda.is_current_stream_capturing() and (keep or not small(call)):
            count = Count(call)
            expected = count.expected if guess and small(call) else None
            if expected is not None:
                capacity = Capacity(events, min(events, expected), most, crowded=None)
                output, final, tape = run_counting(call, capacity, count.ticket)
                return Result(output, tuple(final), [call.schedule, tape], later=count.wait)
            guessed = likely(call, count, keep) if guess or not keep else None
            if guessed is not None:
                output, final, tape = run_counting(call, guessed, count.ticket)
                most, events = count.wait(call.schedule, LONG)
                if events <= guessed.arrivals and most <= guessed.most and kernels_for(call, events) == guessed[3:]:
                    return Result(output, tuple(final), [call.schedule, tape] if keep else [], (most, events))
                call = Call(problem)  # the first one's schedule has been filled in
                call.prepare()
                count = Count(call)
            call.add_up(count.ticket)
            most, events = count.wait(call.schedule)
            capacity = Capacity(events, events if keep else 0, most, *kernels_for(call, events))
            output, final, tape = call.run_forward(capacity)
        else:
            output, final, tape = run_counting(call, capacity)
        return Result(output, tuple(final), [call.schedule, tape] if keep else [], (most, events))


def run_counting(call: Call, capacity: Capacity, ticket: Ticket | None = None) -> tuple[Tensor, list[Tensor], Tensor]:
    """`Call.run_forward` of events that are not counted yet: by a kernel for all blocks or, of few blocks, by each block."""
    if not call.dense and call.blocks > MANY:
        call.add_up(ticket)
        ticket = None
    return call.run_forward(capacity, ticket)


def likely(call: Call, count: Count, keep: bool) -> Capacity | None:
    """The capacity for a batch by the last ones; None if there were none, or if it is not clear which kernels it needs."""
    expected, seen = count.expected, count.likely
    if expected is None or seen is None:
        return None
    (most, events), all_open = seen, call.rows * call.units
    fewer, more = (kernels_for(call, part * events) for part in (0.9, 1.1))
    if fewer != more:
        return None
    room = min(expected, all_open, LARGEST)
    return Capacity(room, room if keep else 0, min(most, call.units), *fewer)


def kernels_for(call: Call, events: float) -> tuple[bool, bool]:
    """What `Capacity` says of the kernels for so many events."""
    # A small batch may also be run without the number of events, and then has to give the same bits.
    most_open = call.features >= WIDE and events > OPEN * call.rows * call.units and not small(call)
    return most_open, call.is_crowded(events)


def begin(problem: Problem) -> Result:
    """The forward pass of training, which may return before the events are counted."""
    return forward(problem, keep=True, guess=True)


def small(call: Call) -> bool:
    """Whether to allocate for all units being open instead of waiting for the number of events."""
    if call.rows * call.units * struct_bytes(call.size)["arrival"] > SMALL * memory(call.device):
        return False
    return guessable(call)


@cache
def memory(device: int) -> int:
    """Bytes of a GPU's memory."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def guessable(call: Call) -> bool:
    """Whether the forward passes of batches of this many sequences have kernels that run without the number of events."""
    if call.dense or call.units > max(HELD, GROUPED):
        return False
    return fits_all_open(call.units, call.batch, call.size, call.device, call.tape_dtype)


@cache
def fits_all_open(units: int, batch: int, size: int, device: int, tape_dtype: torch.dtype | None) -> bool:
    """Whether small layers of this size have their kernels even with all units open at once."""
    most = -(-units // 8) * 8
    plans = [plan("forward", units, batch, units, most, size, device, tape_dtype, crowded) for crowded in (False, True)]
    return all(layout.name in ("held_forward", "grouped_forward") for layout in plans)


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, this GPU is the current one. If it is already, a null context is faster."""
    return nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device)


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool
) -> Gradients:
    """All gradients from those to the output and the final state; the one to the input only `with_input`."""
    with on(problem.input.device), without_autocast():
        schedule, tape = result.saved
        most, count = result.complete()
        call = Call(problem, schedule)
        check_saved(call, tape, most, count)
        if count > tape.shape[0]:  # the guess was too low: the forward pass is repeated with the true number
            result = forward(problem, keep=True)
            schedule, tape = result.saved
            most, count = result.numbers
            call = Call(problem, schedule)
        back = Backward(call, result.output, tape, most, count, to_output, to_final)
        to_x = (back.dense if call.dense else back.sparse)(with_input)
        return Gradients(to_x, back.to_state, back.to_weights, back.to_gate)


def check_saved(call: Call, tape: Tensor, most: int, count: int) -> None:
    """Raise unless what was saved has the sizes of this problem's; GPU memory is not read."""
    expected = call.bytes_of_schedule, taped(call.size, call.dense, call.tape_dtype)
    fits = (call.schedule.numel(), tape.shape[1]) == expected and 0 <= most <= call.units and 0 <= count <= call.rows * call.units
    if not fits:
        raise ValueError("saved must be what the forward pass of the same problem saved, got other sizes.")


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    x = problem.input
    steps, batch, features = x.shape
    units, dense, size = problem.weights.hh.shape[1], is_dense(problem), x.element_size()
    schedule = parts_of_schedule(steps * batch, units, features, size, dense)[-1]
    events = steps * batch * units if dense else unknown()
    return [
        x.new_empty(schedule, dtype=torch.uint8),
        x.new_empty(events, taped(size, dense, tape_dtype_of(problem)), dtype=torch.uint8),
    ]


recurrence = operator("cuda", forward, backward, saved_like, begin, empty_state=True, numbers=2)
