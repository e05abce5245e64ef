"""Forward and backward pass by the compiled core: open events only at leak 0, matrix products with a fused cell otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from phased.cell import Weights
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.core import core
from phased.ops.cpu.call import Call
from phased.ops.cpu.gradients import dense_gradients
from phased.ops.memory import address, contiguous, contiguous_rows
from phased.ops.operator import filled, operator

# Mean open ratio above which whole matrix products are faster than single open units; measured by `phased bench cpu`.
BREAK_EVEN = 0.5


def is_dense(call: Call) -> bool:
    """Whether all units are computed at every step: with a leak, or where so many are open that this is faster."""
    return call.leak > 0 or call.mean_ratio_on > BREAK_EVEN


def forward(problem: Problem, keep: bool) -> Result:
    """Output, final state and, to keep, the tape."""
    call = Call(problem)
    x = problem.input
    steps, batch, _ = x.shape
    output = x.new_empty(steps, batch, call.units)
    final = [torch.empty_like(s, memory_format=torch.contiguous_format) for s in call.state]
    results = (address(output), *call.states(final))
    saved: list[Tensor] = []
    if is_dense(call):
        size = batch * steps * call.fields * core.whole_units(call.units) if keep else 0
        saved = allocate(x, slots=0, tape=size) if keep else []
        if keep:
            saved[0].zero_()  # a dense pass has no rows of events
        call.function("forward_dense")(call.core, *results, address(saved[-1]) if keep else 0)
    elif keep:
        schedule = call.function("schedule")(call.core)
        saved = allocate(x, slots=schedule.slots, tape=call.fields * schedule.slots)
        call.function("forward")(call.core, schedule, *results, *map(address, saved))
    else:
        call.function("infer")(call.core, *results)
    return Result(output, tuple(final), saved)


def allocate(x: Tensor, slots: Any, tape: Any) -> list[Tensor]:
    """What a forward pass saves: row starts; unit, openness and side of each open event; and what its cell keeps."""
    steps, batch, _ = x.shape
    return [
        x.new_empty(batch, steps + 1, dtype=torch.int64),
        x.new_empty(slots, dtype=torch.int32),
        x.new_empty(slots),
        x.new_empty(slots, dtype=torch.uint8),
        x.new_empty(tape),
    ]


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool
) -> Gradients:
    """All gradients from those to the output and the final state; the one to the input only `with_input`."""
    call = Call(problem)
    x = problem.input
    output = result.output
    to_rows = None if to_output is None else contiguous_rows(to_output)
    strides = (0, 0) if to_rows is None else (to_rows.stride(1), to_rows.stride(0))
    to_end = [contiguous(d) for d in filled(to_final, result.final)]
    to_state = [torch.empty_like(s) for s in call.state]
    to_gate = torch.empty(3, call.units, dtype=torch.float64, device="cpu")
    to_peephole = None if problem.weights.peephole is None else x.new_empty(3, call.units)
    given = (address(to_rows), *strides, *call.states(to_end))
    dense = is_dense_tape(call, result.saved)
    if dense:
        to_products = x.new_empty(*output.shape[:2], core.PRODUCTS, call.units)
        call.function("backward_dense")(
            call.core,
            address(output),
            address(result.saved[-1]),
            *given,
            address(to_products),
            *call.states(to_state),
            address(to_peephole),
            address(to_gate),
        )
        to_x, matrices = dense_gradients(problem, call, output, to_products, with_input)
    else:
        to_x = x.new_empty(x.shape) if with_input else None
        matrices = [None if w is None else torch.empty_like(w) for w in call.weights[:4]]
        call.function("backward")(
            call.core,
            *map(address, result.saved),
            result.saved[1].numel(),
            address(output),
            *given,
            address(to_x),
            *call.states(to_state),
            [address(m) for m in matrices],
            address(to_peephole),
            address(to_gate),
        )
    ih, hh, bias_ih, bias_hh = matrices
    assert ih is not None
    assert hh is not None
    return Gradients(to_x, tuple(to_state), Weights(ih, hh, bias_ih, bias_hh, to_peephole), tuple(g.clone() for g in to_gate))


def is_dense_tape(call: Call, saved: Sequence[Tensor]) -> bool:
    """Whether a dense pass saved this: a sparse one has spare slots even if no unit was open. Sizes that fit neither raise."""
    start, unit, k, side, tape = saved
    slots, (steps, batch, _) = unit.numel(), call.input.shape
    expected = call.fields * slots if slots else batch * steps * call.fields * core.whole_units(call.units)
    if start.shape != (batch, steps + 1) or not k.numel() == side.numel() == slots or tape.numel() != expected:
        raise ValueError("saved must be what the forward pass of the same problem saved, got other sizes.")
    return slots == 0


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    return allocate(problem.input, slots=unknown(), tape=unknown())


recurrence = operator("cpu", forward, backward, saved_like)
