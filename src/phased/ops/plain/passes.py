"""The recurrence with its backward pass derived by hand, in plain PyTorch: what kernels transcribe.

At leak 0 only open events are computed and stored. Walking backwards, the state before a step is restored by writing the stored
previous values of the units that were open in it; so the memory a backward pass needs grows with the open events, not with
steps x units. With a leak every unit works at every step, and whole matrices are multiplied instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from phased.ops.contract import Gradients, Problem, Result
from phased.ops.operator import Forward, filled, operator
from phased.ops.plain import dense, sparse
from phased.ops.plain.tape import Tape
from phased.schedule import valid_steps


def engine(problem: Problem) -> tuple[Forward, Any]:
    """A leak keeps every unit at work."""
    return (dense.forward, dense.backward) if problem.gate.leak > 0 else (sparse.forward, sparse.backward)


def clean(problem: Problem) -> Problem:
    """The gate bounded; and padding, which may hold anything, NaN too, made zero, so that no product can carry it on."""
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
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool = True
) -> Gradients:
    """Gradients of everything, given those of the output and the final state; that of the input where it is wanted."""
    problem = clean(problem)
    if to_output is not None and problem.lengths is not None:  # the output of padding is a constant
        to_output = torch.where(valid_steps(to_output.shape[0], problem.lengths).unsqueeze(-1), to_output, 0)
    gradients: Gradients = engine(problem)[1](problem, result, to_output, filled(to_final, result.final), with_input)
    return gradients


def tape_shapes(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
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


recurrence = operator("adjoint", forward, backward, tape_shapes)
