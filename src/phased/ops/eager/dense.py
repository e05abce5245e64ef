"""The recurrence over every unit at every step, forwards and backwards: any leak."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.cell import State, Weights, hold, products
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.eager.tape import Tape, release
from phased.schedule import valid_steps


def forward(problem: Problem, keep: bool) -> Result:
    """Every unit at every step."""
    cell, x, w = problem.cell, problem.input, problem.weights
    steps, batch, _ = x.shape
    hidden = w.hh.shape[1]
    k, _ = dense_openness(problem)
    peephole = None if w.peephole is None else w.peephole.unsqueeze(1)
    tape = Tape(x.new_empty(Tape.height(cell), steps if keep else 0, batch, hidden), cell)
    state = problem.state
    output = x.new_empty(steps, batch, hidden)
    for j in range(steps):
        proposal = cell.propose(
            products(x[j], w.ih, w.bias_ih, cell.gates), products(state[0], w.hh, w.bias_hh, cell.gates), state, peephole
        )
        if keep:
            tape.write(j, proposal, state)
        state = hold(k[j], proposal.state, state)
        output[j] = state[0]
    return Result(output, tuple(s.clone() for s in state), [tape.values] if keep else [])


def backward(problem: Problem, result: Result, to_output: Tensor | None, to_final: State, with_input: bool) -> Gradients:
    """Every unit at every step, from the last to the first."""
    cell, x, w = problem.cell, problem.input, problem.weights
    steps = x.shape[0]
    hidden = w.hh.shape[1]
    k, time = dense_openness(problem)
    peephole = None if w.peephole is None else w.peephole.unsqueeze(1)
    tape = Tape(result.saved[0], cell)
    to_state = tuple(d.clone() for d in to_final)
    to_x, to_w_x, to_w_h = (x.new_zeros(v.shape) for v in (x, w.ih, w.hh))
    to_b_x, to_b_h = x.new_zeros(cell.gates * hidden), x.new_zeros(cell.gates * hidden)
    to_peephole = x.new_zeros(3, hidden)
    to_k = x.new_empty(k.shape)
    for j in reversed(range(steps)):
        if to_output is not None:
            to_state[0].add_(to_output[j])
        proposal, previous = tape.read(j)
        to_proposed, to_k[j], to_held = release(k[j], to_state, proposal.state, previous)
        gradient = cell.adjoint(to_proposed, proposal, previous, peephole)
        to_state = tuple(held + through for held, through in zip(to_held, gradient.previous, strict=True))
        from_x, from_h = (g.movedim(0, 1).flatten(1) for g in (gradient.from_x, gradient.from_h))
        to_state[0].addmm_(from_h, w.hh)
        if with_input:
            to_x[j] = from_x @ w.ih
        to_w_h.addmm_(from_h.T, previous[0])
        to_w_x.addmm_(from_x.T, x[j])
        to_b_x.add_(from_x.sum(0))
        to_b_h.add_(from_h.sum(0))
        if gradient.peephole is not None:
            to_peephole.add_(gradient.peephole.sum(1))
    if problem.lengths is not None:
        to_k = to_k * valid_steps(steps, problem.lengths).unsqueeze(-1)
    gate = problem.gate.gradients(time.unsqueeze(-1), to_k)
    return Gradients(
        to_x if with_input else None,
        to_state,
        Weights(
            to_w_x,
            to_w_h,
            None if w.bias_ih is None else to_b_x,
            None if w.bias_hh is None else to_b_h,
            None if w.peephole is None else to_peephole,
        ),
        tuple(g.sum((0, 1)) for g in gate),
    )


def dense_openness(problem: Problem) -> tuple[Tensor, Tensor]:
    """The openness of every unit at every step, zero in padding, and the times, with zeros in padding."""
    time = problem.time
    if problem.lengths is None:
        return problem.gate(time).to(problem.input.dtype), time
    valid = valid_steps(time.shape[0], problem.lengths)
    time = torch.where(valid, time, 0)
    return torch.where(valid.unsqueeze(-1), problem.gate(time), 0).to(problem.input.dtype), time
