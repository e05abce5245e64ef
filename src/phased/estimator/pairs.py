"""Products of pairs of summaries: what two variables say together, which a sum of what each says cannot express."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phased.estimator.summary import REAL, Pieces, cut

SPREAD = 0.05
"""Spread of a product."""
LEAST_SPREAD = 0.05
"""A summary that spreads over less than this share of a piece has no products."""
PRIOR = 1.0
"""Spread of the log odds, or of the scaled number, that the penalty expects of all products together."""
MOST = 256
"""Summaries whose pairs are multiplied, at most: with more there are no products."""


class Pairs(nn.Module):
    """A quadratic form of summaries, for each output. It is 0 before training.

    A summary enters by its rank among those of the training: the sum of its pieces, which no outlier makes large, centred and
    scaled.

    Args:
        size: number of summaries.
        pieces: pieces of each.
        outputs: number of outputs.

    Shape:
        - input: (B, size).
        - output: (B, outputs).
    """

    start: Tensor
    slope: Tensor
    center: Tensor
    factor: Tensor

    def __init__(self, size: int, pieces: int, outputs: int) -> None:
        super().__init__()
        for name in ("start", "slope"):
            self.register_buffer(name, torch.zeros(pieces, size, dtype=REAL))
        for name in ("center", "factor"):
            self.register_buffer(name, torch.zeros(size, dtype=REAL))
        self.weight = nn.Parameter(torch.zeros(outputs, size, size, dtype=REAL))
        self.decay = 0.0  # of the weights; `measure` sets it

    def forward(self, rows: Tensor) -> Tensor:
        """The outputs; the summaries get no gradient."""
        with torch.no_grad():
            ranks = self.ranks(rows).sub_(self.center).mul_(self.factor)
        result: Tensor = _QuadraticForm.apply(ranks, self.weight)  # type: ignore[no-untyped-call]
        return result

    def ranks(self, rows: Tensor) -> Tensor:
        """The sum of the pieces of each summary, from 0 to their number."""
        return cut(rows, self.start, self.slope).sum(-2)

    @torch.no_grad()
    def measure(self, pieces: Pieces, chosen: Tensor, rows: Tensor) -> None:
        """Set quantiles, scales and penalty from these of the pieces' columns, and their summaries in training, (rows, size)."""
        self.start.copy_(pieces.start[:, chosen])
        self.slope.copy_(pieces.slope[:, chosen])
        spread, center = torch.std_mean(self.ranks(rows), 0, correction=0)
        self.center.copy_(center)
        self.factor.copy_(torch.where(spread > LEAST_SPREAD, SPREAD**0.5 / (spread + LEAST_SPREAD), 0.0))
        # Each weight has, before any sequence is seen, an equal share of the spread `PRIOR`.
        self.decay = (float((self.factor > 0).sum()) * SPREAD / PRIOR) ** 2 / max(1, len(rows))

    def penalty(self) -> Tensor:
        """Of the weights."""
        return self.decay * self.weight.square().sum()

    def extra_repr(self) -> str:
        """The numbers of summaries and outputs."""
        return f"size={self.weight.shape[-1]}, outputs={len(self.weight)}"


class _QuadraticForm(torch.autograd.Function):
    """Sums of r[i] * weight[o, i, j] * r[j] for rows r, (B, outputs): in half the time of what autograd makes of them."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return (torch.matmul(rows, weight) * rows).sum(-1).t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_y: Tensor) -> tuple[None, Tensor]:
        (rows,) = ctx.saved_tensors
        return None, (to_y.t().unsqueeze(-1) * rows).transpose(1, 2) @ rows
