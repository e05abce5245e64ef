"""The compiled core on CPU tensors: passes over open events only at leak 0, otherwise matrix products with a fused cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from phased.cell import Weights
from phased.gate import LONGEST_PERIOD, SHORTEST_PERIOD, SMALLEST_RATIO, TimeGate
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.native import KINDS, address, contiguous, contiguous_rows, core
from phased.ops.operator import Operator, filled
from phased.schedule import valid_steps

# Mean open ratio above which whole matrix products are faster than single open units; measured by `phased bench cpu`.
BREAK_EVEN = 0.5
BOUNDS = (SHORTEST_PERIOD, LONGEST_PERIOD, SMALLEST_RATIO)


class CoreCall:
    """A problem as the core's arguments: addresses, and the tensors that must outlive the call. Autograd records nothing here.

    The core moves gates into their bounds.
    """

    def __init__(self, problem: Problem) -> None:
        steps, batch, features = problem.input.shape
        self.input = contiguous_rows(problem.input)
        self.time = contiguous(problem.time.to(torch.float64).t())
        lengths = problem.lengths
        self.lengths = torch.full((batch,), steps, dtype=torch.int64, device="cpu") if lengths is None else contiguous(lengths)
        self.state = [contiguous(s) for s in problem.state]
        self.weights = [None if w is None else contiguous(w) for w in problem.weights]
        self.gate = [contiguous(g) for g in problem.gate.parameters()]
        self.kind = KINDS[problem.input.dtype]
        self.leak, self.units = problem.gate.leak, problem.weights.hh.shape[1]
        self.fields = core.KEPT[problem.cell.name]  # numbers that an event keeps on the tape
        self.core = self.function("Problem")(
            core.CELLS[problem.cell.name],
            core.SHAPES[problem.gate.shape],
            self.leak,
            batch,
            steps,
            features,
            self.units,
            address(self.input),
            self.input.stride(1),
            self.input.stride(0),
            address(self.time),
            address(self.lengths),
            *self.states(self.state),
            [address(w) for w in self.weights[:4]],
            address(self.weights[4]),
            [address(g) for g in self.gate],
            BOUNDS,
            torch.get_num_threads(),
        )

    @property
    def mean_ratio_on(self) -> float:
        """The mean open ratio of the gate in force."""
        return float(self.core.ratio_on)

    def function(self, name: str) -> Any:
        """The core's function or class for this dtype."""
        return getattr(core, name + self.kind)

    def states(self, tensors: list[Tensor]) -> tuple[int, int]:
        """Addresses of h and c; the GRU has no c."""
        return address(tensors[0]), address(tensors[1]) if len(tensors) > 1 else 0


def is_dense(call: CoreCall) -> bool:
    """Whether all units are computed at every step: with a leak, or where so many are open that this is faster."""
    return call.leak > 0 or call.mean_ratio_on > BREAK_EVEN


def forward(problem: Problem, keep: bool) -> Result:
    """Output, final state and, to keep, the tape."""
    call = CoreCall(problem)
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
    call = CoreCall(problem)
    x = problem.input
    output = result.output
    to_rows = None if to_output is None else contiguous_rows(to_output)
    strides = (0, 0) if to_rows is None else (to_rows.stride(1), to_rows.stride(0))
    to_end = [contiguous(d) for d in filled(to_final, result.final)]
    to_state = [torch.empty_like(s) for s in call.state]
    to_gate = torch.empty(3, call.units, dtype=torch.float64, device="cpu")
    to_peephole = None if problem.weights.peephole is None else x.new_empty(3, call.units)
    given = (address(to_rows), *strides, *call.states(to_end))
    if not result.saved[1].numel():  # a dense pass saved this: a sparse one has spare slots even if no unit was open
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


def dense_gradients(
    problem: Problem, call: CoreCall, output: Tensor, to_products: Tensor, with_input: bool
) -> tuple[Tensor | None, list[Tensor | None]]:
    """Gradients to the input and the weights: one large product each, from the gradients to the cells' products (T, B, 4, H)."""
    x, units = call.input, call.units
    if problem.lengths is not None:  # padding may hold anything, and 0 * NaN is NaN
        x = torch.where(valid_steps(x.shape[0], call.lengths).unsqueeze(-1), x, 0)
    features = x.shape[2]
    rows = x.new_ones(*x.shape[:2], features + units + 1)  # [x | h before | 1], as every unit reads them
    rows[..., :features] = x
    if len(rows):
        rows[0, :, features:-1] = call.state[0]
        rows[1:, :, features:-1] = output[:-1]
    flat = to_products.view(-1, core.PRODUCTS * units)
    whole = (flat.T @ rows.view(-1, rows.shape[2])).view(core.PRODUCTS, units, rows.shape[2])
    rows_of_h = core.ROWS_OF_H[problem.cell.name]  # for each product: see cell.h
    own = [rows_of_h.index(row) for row in range(problem.cell.gates)]
    from_x, from_h = whole[: problem.cell.gates], whole if own == rows_of_h else whole[own]
    matrices: list[Tensor | None] = [
        from_x[..., :features].flatten(0, 1).contiguous(),
        from_h[..., features:-1].flatten(0, 1).contiguous(),
    ]
    biased = problem.weights.bias_ih is not None
    matrices += [from_x[..., -1].flatten().clone(), from_h[..., -1].flatten().clone()] if biased else [None, None]
    if not with_input:
        return None, matrices
    weight = call.weights[0]
    assert weight is not None
    return (flat[:, : len(weight)] @ weight).view(x.shape), matrices


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    return allocate(problem.input, slots=unknown(), tape=unknown())


@torch.no_grad()
def count(gate: TimeGate, time: Tensor, lengths: Tensor | None) -> Tensor:
    """How often each unit is open in each sequence, (B, H) int64, without a leak."""
    (steps, batch), units = time.shape, gate.period.numel()
    clock = contiguous(time.to(torch.float64).t())
    own = torch.full((batch,), steps, dtype=torch.int64, device="cpu") if lengths is None else contiguous(lengths)
    gates = [contiguous(each) for each in gate.parameters()]
    sizes = (0, 0, 0.0, batch, steps, 0, units)  # of any cell, and with gates of any shape: units open at the same times
    clocks = (0, 0, 0, address(clock), address(own))
    rest = (0, 0, [0, 0, 0, 0], 0, [address(each) for each in gates], BOUNDS, torch.get_num_threads())
    counts = torch.empty(batch, units, dtype=torch.int64, device="cpu")
    core.count_open32(core.Problem32(*sizes, *clocks, *rest), address(counts))
    return counts


def is_clock(time: Tensor, lengths: Tensor | None) -> bool:
    """Whether times (T, B) are float64, finite and never decreasing, except in padding."""
    if time.dtype != torch.float64 or time.is_neg():
        return False
    own = None if lengths is None else contiguous(lengths)
    result: bool = core.is_clock(address(time), *time.shape, *time.stride(), address(own))
    return result


recurrence = Operator("cpu", forward, backward, saved_like)
