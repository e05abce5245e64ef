"""Gradients to input and weights after a dense backward pass: matrix products over all steps."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.ops.contract import Problem
from phased.ops.core import core
from phased.ops.cpu.call import Call
from phased.schedule import valid_steps


def dense_gradients(
    problem: Problem, call: Call, output: Tensor, to_products: Tensor, with_input: bool
) -> tuple[Tensor | None, list[Tensor | None]]:
    """Gradients to the input and the weights: one large product each, from the gradients to the cells' products (T, B, 4, H)."""
    x, units = call.input, call.units
    if problem.lengths is not None:  # padding may hold anything, and 0 * NaN is NaN
        x = torch.where(valid_steps(x.shape[0], call.lengths).unsqueeze(-1), x, 0)
    features = x.shape[2]
    seen = x.new_ones(*x.shape[:2], features + units + 1)  # [x | h before | 1], as every unit reads them
    seen[..., :features] = x
    if len(seen):
        seen[0, :, features:-1] = call.state[0]
        seen[1:, :, features:-1] = output[:-1]
    flat = to_products.view(-1, core.PRODUCTS * units)
    whole = (flat.T @ seen.view(-1, seen.shape[2])).view(core.PRODUCTS, units, seen.shape[2])
    rows = core.ROWS_OF_H[problem.cell.name]  # of each product
    of_rows = [rows.index(row) for row in range(problem.cell.gates)]
    from_x, from_h = whole[: problem.cell.gates], whole if of_rows == rows else whole[of_rows]
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
