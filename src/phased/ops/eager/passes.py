"""Forward and backward pass in plain PyTorch, the backward pass derived by hand: the model for core and kernels.

At leak 0 only open events are computed and stored. The backward pass goes from the last step to the first and restores the state
before a step from the stored previous values of the units that were open in it. So its memory grows with the open events, not
with steps x units. With a leak every unit changes at every step, and whole matrices are multiplied instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from phased.ops.contract import Gradients, Problem, Result
from phased.ops.eager import dense, sparse
from phased.ops.eager.tape import Tape
from phased.ops.operator import Forward, filled
from phased.schedule import valid_steps


def engine(problem: Problem) -> tuple[Forward, Any]:
    """Forward and backward pass: dense with a leak, sparse without."""
    return (dense.forward, dense.backward) if problem.gate.leak > 0 else (sparse.forward, sparse.backward)


def clean(problem: Problem) -> Problem:
    """The problem with its gate bounded, and zeros in its padding, which may hold NaN: a product would spread it."""
    problem = problem._replace(gate=problem.gate.bounded())
    if problem.lengths is None:
        return problem
    valid = valid_steps(problem.input.shape[0], problem.lengths).unsqueeze(-1)
    return problem._replace(input=torch.where(valid, problem.input, 0))


def forward(problem: Problem, keep: bool) -> Result:
    """Output, final state and, to keep, the tape."""
    problem = clean(problem)
    result = engine(problem)[0](problem, keep)
    if problem.lengths is not None:
        result.output.masked_fill_(~valid_steps(problem.input.shape[0], problem.lengths).unsqueeze(-1), 0)
    return result


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool
) -> Gradients:
    """All gradients from those to the output and the final state; the one to the input only `with_input`."""
    problem = clean(problem)
    if to_output is not None and problem.lengths is not None:  # the output of padding is a constant
        to_output = torch.where(valid_steps(to_output.shape[0], problem.lengths).unsqueeze(-1), to_output, 0)
    gradients: Gradients = engine(problem)[1](problem, result, to_output, filled(to_final, result.final), with_input)
    return gradients


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    steps, batch, _ = problem.input.shape
    height = Tape.height(problem.cell)
    if problem.gate.leak > 0:
        return [problem.input.new_empty(height, steps, batch, problem.weights.hh.shape[1])]
    events = unknown()
    return [
        problem.input.new_empty(steps * batch + 1, dtype=torch.int64),
        problem.input.new_empty(events, dtype=torch.int64),
        problem.input.new_empty(events, dtype=torch.float64),
        problem.input.new_empty(height, events),
    ]
