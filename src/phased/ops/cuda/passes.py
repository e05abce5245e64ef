"""Forward and backward pass by the CUDA kernels: open units only at leak 0, except in very large layers; else all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phased.ops.contract import EventCount, Gradients, Problem, Result
from phased.ops.cuda import counting, replay
from phased.ops.cuda.counting import Count
from phased.ops.cuda.gradients import Backward, Density
from phased.ops.cuda.launch import (
    NOWHERE,
    Capacity,
    CudaCall,
    Slot,
    is_dense,
    parts_of_schedule,
    tape_dtype_of,
    taped,
)
from phased.ops.cuda.replay import ListedBackward, ListedCall

LONG = 2.0  # seconds that a batch waits for its number when the GPU has more to do than to count


def forward(problem: Problem, keep: bool, listed: ListedCall | None = None, guess: bool = False) -> Result:
    """Output, final state and, to keep, the schedule, the tape, and how many events there are.

    Memory for events is allocated by their number, which the GPU must count first. While a CUDA graph is recorded this would
    block, so the capacity is that of all units being open. A small batch allocates that much for its run, and does not block if
    nothing is kept, or with `guess`: then the tape's capacity is a guess by the last batches. If it is too small, the backward
    pass repeats the forward pass. Other batches have their number guessed, and wait for it when all kernels are launched, so that
    the GPU need not; if it is not as guessed, they are launched again.
    """
    if listed is not None:  # its device is the current one
        return run_call(problem, keep, listed, guess)
    with on(problem.input.device):
        return run_call(problem, keep, replay.find_or_list(problem), guess)


def run_call(problem: Problem, keep: bool, listed: ListedCall | None, guess: bool) -> Result:
    """The forward pass of a problem on the current device; `listed`: if its passes are."""
    call = CudaCall(problem) if listed is None else listed.call
    if call.dense or not call.rows or (listed is None and torch.cuda.is_current_stream_capturing()):
        capacity = counting.all_open(call, call.rows * call.units if keep else 0)
        output, final, saved = run(call, capacity) if listed is None else listed.run_forward(capacity, NOWHERE)
        fast = ListedBackward.of(listed, problem, output, final, saved) if guess else None
        return Result(output, tuple(final), saved if keep else [], EventCount((capacity.most, capacity.arrivals)), fast)
    count = Count(call, problem.gate.period)
    guessed = counting.guess_capacity(call, count, keep) if guess or not keep else None
    if guessed is not None:
        run_guessed = partial(run, call) if listed is None else listed.run_forward
        output, final, saved = run_guessed(guessed, count.slot)
        fast = ListedBackward.of(listed, problem, output, final, saved) if guess else None  # while the GPU counts
        if counting.fits_all_open(call):
            return Result(output, tuple(final), saved if keep else [], EventCount(wait=count.wait), fast)
        most, events = count.wait(saved[0], LONG)
        if events <= guessed.arrivals and most <= guessed.most and counting.kernels_for(call, events) == guessed[3:]:
            return Result(output, tuple(final), saved if keep else [], EventCount((most, events)), fast)
        count = Count(call, problem.gate.period)
    if listed is not None or guessed is not None:
        call = CudaCall(problem)  # with memory of its own, in which nothing is filled in yet
    call.prepare()
    call.add_up(count.slot)
    most, events = count.wait(call.schedule)
    capacity = Capacity(events, events if keep else 0, most, *counting.kernels_for(call, events))
    output, final, tape = call.run_forward(capacity)
    return Result(output, tuple(final), [call.schedule, tape] if keep else [], EventCount((most, events)))


def run(call: CudaCall, capacity: Capacity, slot: Slot = NOWHERE) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The output, the final state, and what a backward pass needs: the schedule and the tape."""
    call.prepare()
    output, final, tape = call.count_and_run(capacity, slot)
    return output, final, [call.schedule, tape]


def begin(problem: Problem, listed: ListedCall | None = None) -> Result:
    """The forward pass of training, which may return before the events are counted."""
    return forward(problem, True, listed, guess=True)


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, this GPU is the current one. If it is already, a null context is faster."""
    return nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device)


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool
) -> Gradients:
    """All gradients from those to the output and the final state; the one to the input only `with_input`."""
    with on(problem.input.device):
        schedule, tape = result.saved
        most, count = result.event_count.complete(schedule)
        listed = replay.find(problem)
        call = CudaCall(problem, schedule) if listed is None else listed.call
        if listed is not None and listed.passes.lists_backward(count, tape.shape[0]):
            return listed.run_backward(result, most, count, to_output, to_final, with_input)
        if count > tape.shape[0]:  # the guess was too low: the forward pass is repeated with the true number
            result = forward(problem, keep=True)
            schedule, tape = result.saved
            most, count = result.event_count.numbers
        if call.schedule is not schedule:
            call = CudaCall(problem, schedule)
        back = Backward(call, result.output, tape, count, Density.of(call.rows, call.units, most, count), to_output, to_final)
        to_x = (back.dense if call.dense else back.sparse)(with_input)
        return Gradients(to_x, back.to_state, back.to_weights, back.to_gate)


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
