"""The specification: a loop over the cell, differentiated by autograd. Every backend is held to it; it is never optimised."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.cell import State, hold, products
from phased.ops.contract import Problem, without_autocast
from phased.schedule import valid_steps


def recurrence(problem: Problem) -> tuple[Tensor, State]:
    """Output (T, B, H) and final state from input (T, B, D), time (T, B) and the initial state, each (B, H).

    Steps beyond a sequence's length are closed for every unit: they keep the state, and their output is zero.
    """
    with without_autocast(problem.input.device.type):
        return _recurrence(problem.started())


def _recurrence(problem: Problem) -> tuple[Tensor, State]:
    cell, gate, input, time, state, weights, lengths, _ = problem
    gate, steps = gate.bounded(), len(input)
    valid = None if lengths is None else valid_steps(steps, lengths)
    if valid is not None:  # padding may hold anything, NaN too
        input = torch.where(valid.unsqueeze(-1), input, 0)
        time = torch.where(valid, time, 0)
    k = gate(time).to(input.dtype)
    if valid is not None:
        k = torch.where(valid.unsqueeze(-1), k, 0)

    outputs = []
    for x_j, k_j in zip(input, k, strict=True):
        from_x = products(x_j, weights.ih, weights.bias_ih, cell.gates)
        from_h = products(state[0], weights.hh, weights.bias_hh, cell.gates)
        peephole = None if weights.peephole is None else weights.peephole.unsqueeze(1)
        state = hold(k_j, cell.propose(from_x, from_h, state, peephole).state, state)
        outputs.append(state[0])
    if outputs:
        output = torch.stack(outputs)
    else:  # without a step everything still has a gradient: zeros
        output = k + sum(tensor.sum() for tensor in (input, *state, *weights.present()))
        state = tuple(s + output.sum() for s in state)
    return (output if valid is None else torch.where(valid.unsqueeze(-1), output, 0)), state
