"""The recurrence over open events only, forwards and backwards: leak 0."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.cell import Cell, State, Weights, hold
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.eager.tape import Tape, release
from phased.schedule import Schedule, schedule


class Sparse:
    """The open events of each step, across the batch."""

    def __init__(self, events: Schedule, steps: int, batch: int, dtype: torch.dtype) -> None:
        self.events = events
        self.unit = events.unit
        self.row = events.rows()
        self.sequence = self.row % batch if batch else self.row
        self.k = events.openness.to(dtype)
        self.bounds: list[int] = events.start[::batch].tolist() if batch else [0] * (steps + 1)
        self.count = int(self.unit.numel())

    def step(self, j: int) -> tuple[slice, tuple[Tensor, Tensor], Tensor]:
        """Step j: its events, their index into a (B, H) state, and their openness."""
        at = slice(self.bounds[j], self.bounds[j + 1])
        return at, (self.sequence[at], self.unit[at]), self.k[at]


def forward(problem: Problem, keep: bool) -> Result:
    """Open events only."""
    cell, x, w = problem.cell, problem.input, problem.weights
    steps, batch, _ = x.shape
    events = schedule(problem.gate, problem.time, problem.lengths)
    plan = Sparse(events, steps, batch, x.dtype)
    w_x, w_h = by_gate(w.ih, cell), by_gate(w.hh, cell)
    b_x, b_h = (None if bias is None else by_gate(bias, cell) for bias in (w.bias_ih, w.bias_hh))
    tape = Tape(x.new_empty(Tape.height(cell), plan.count if keep else 0), cell)
    state = tuple(s.clone() for s in problem.state)
    output = x.new_empty(steps, batch, w.hh.shape[1])
    for j in range(steps):
        at, here, k = plan.step(j)
        sequence, unit = here
        if unit.numel():
            previous = tuple(s[here] for s in state)
            from_x = row_products(w_x, b_x, unit, x[j, sequence])
            from_h = row_products(w_h, b_h, unit, state[0][sequence])
            proposal = cell.propose(from_x, from_h, previous, None if w.peephole is None else w.peephole[:, unit])
            for whole, new in zip(state, hold(k, proposal.state, previous), strict=True):
                whole[here] = new
            if keep:
                tape.write(at, proposal, previous)
        output[j] = state[0]
    saved = [events.start, events.unit, events.openness, tape.values] if keep else []
    return Result(output, state, saved)


def backward(problem: Problem, result: Result, to_output: Tensor | None, to_final: State, with_input: bool) -> Gradients:
    """Open events only, from the last to the first."""
    cell, x, w = problem.cell, problem.input, problem.weights
    steps, batch, _ = x.shape
    start, units, openness, values = result.saved
    plan = Sparse(Schedule(start, units, openness), steps, batch, x.dtype)
    tape = Tape(values, cell)
    w_x, w_h = by_gate(w.ih, cell), by_gate(w.hh, cell)
    h = result.final[0].clone()
    to_state = tuple(d.clone() for d in to_final)
    to_x, to_w_x, to_w_h = (x.new_zeros(v.shape) for v in (x, w_x, w_h))
    to_from_x, to_from_h = x.new_empty(cell.gates, plan.count), x.new_empty(cell.gates, plan.count)
    to_peephole = None if w.peephole is None else x.new_zeros(3, plan.count)
    to_k = x.new_empty(plan.count)
    for j in reversed(range(steps)):
        if to_output is not None:
            to_state[0].add_(to_output[j])
        at, here, k = plan.step(j)
        sequence, unit = here
        if not unit.numel():
            continue
        proposal, previous = tape.read(at)
        h[here] = previous[0]
        to_proposed, to_k[at], to_held = release(k, tuple(d[here] for d in to_state), proposal.state, previous)
        gradient = cell.adjoint(to_proposed, proposal, previous, None if w.peephole is None else w.peephole[:, unit])
        for whole, held, through in zip(to_state, to_held, gradient.previous, strict=True):
            whole[here] = held + through
        to_state[0].index_add_(0, sequence, torch.einsum("ge,gek->ek", gradient.from_h, w_h[:, unit]))
        if with_input:
            to_x[j].index_add_(0, sequence, torch.einsum("ge,gek->ek", gradient.from_x, w_x[:, unit]))
        to_w_h.index_add_(1, unit, torch.einsum("ge,ek->gek", gradient.from_h, h[sequence]))
        to_w_x.index_add_(1, unit, torch.einsum("ge,ek->gek", gradient.from_x, x[j, sequence]))
        to_from_x[:, at], to_from_h[:, at] = gradient.from_x, gradient.from_h
        if to_peephole is not None and gradient.peephole is not None:
            to_peephole[:, at] = gradient.peephole

    def per_unit(event_values: Tensor) -> Tensor:
        whole = event_values.new_zeros(*event_values.shape[:-1], w.hh.shape[1])
        return whole.index_add_(-1, plan.unit, event_values)

    gate = problem.gate.of(plan.unit).gradients(problem.time.flatten()[plan.row], to_k)
    return Gradients(
        to_x if with_input else None,
        to_state,
        Weights(
            to_w_x.flatten(0, 1),
            to_w_h.flatten(0, 1),
            None if w.bias_ih is None else per_unit(to_from_x).flatten(),
            None if w.bias_hh is None else per_unit(to_from_h).flatten(),
            None if to_peephole is None else per_unit(to_peephole),
        ),
        tuple(per_unit(g) for g in gate),
    )


def row_products(weight: Tensor, bias: Tensor | None, unit: Tensor, rows: Tensor) -> Tensor:
    """The gates' products of one unit per event with one row per event, (G, events)."""
    products = torch.einsum("gek,ek->ge", weight[:, unit], rows)
    return products if bias is None else products + bias[:, unit]


def by_gate(weight: Tensor, cell: Cell) -> Tensor:
    """Stacked gates (G*H, ...) as (G, H, ...)."""
    return weight.view(cell.gates, -1, *weight.shape[1:])
