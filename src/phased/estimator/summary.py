"""What the linear layer reads of the inputs: summaries of each over a sequence, as pieces between quantiles."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from phased.schedule import valid_steps

PIECES = 8
"""Pieces of a summary where a sequence has one target."""
PIECES_OF_STEPS = 1
"""Pieces where every step has a target: more would multiply the memory of a batch, which has a summary for every step then."""
SPREAD, LEAST_SPREAD = 0.2, 0.001
"""Spread of a piece after scaling: below that of states, of which there are fewer; and the least spread before it."""
LEAST_WIDTH = 1e-4
"""Pieces narrower than this are 0: they would magnify rounding."""
ROWS = 20_000
"""Rows on which quantiles are measured, at most."""


class Pooled(NamedTuple):
    """What is read from a sequence of vectors."""

    last: Tensor
    mean: Tensor
    highest: Tensor


def pool_last(x: Tensor, lengths: Tensor) -> Pooled:
    """Last, mean and highest of x (T, B, D) over each sequence, (B, D); zeros for one without steps. Padding may be anything."""
    some = (lengths > 0).unsqueeze(-1)
    real = valid_steps(len(x), lengths).unsqueeze(-1)
    last = x[(lengths - 1).clamp(min=0), torch.arange(x.shape[1], device=x.device)]
    mean = torch.where(real, x, 0.0).sum(0) / lengths.clamp(min=1).unsqueeze(-1)
    highest = torch.where(real, x, -torch.inf).amax(0)
    return Pooled(torch.where(some, last, 0.0), mean, torch.where(some, highest, 0.0))


def pool_states(h: Tensor, lengths: Tensor) -> Pooled:
    """The same for states, which are finite and between -1 and 1: several times faster, forwards and backwards."""
    return Pooled(*_PoolStates.apply(h, lengths))  # type: ignore[no-untyped-call]


class _PoolStates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        real = valid_steps(len(h), lengths).unsqueeze(-1).to(h.dtype)
        some = (lengths > 0).unsqueeze(-1).to(h.dtype)
        end = (lengths - 1).clamp(min=0).view(1, -1, 1).expand(1, -1, h.shape[-1])
        share = (1 / lengths.clamp(min=1)).unsqueeze(-1).to(h.dtype)
        masked = h * real  # with torch.where, masks are what takes longest here
        mean = masked.sum(0) * share
        below = masked.add_(2 * (real - 1))  # padding is below all states
        highest = below.amax(0)
        ctx.save_for_backward(real, some, end, share, below, highest)
        return h.gather(0, end).squeeze(0) * some, mean, highest * some

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_last: Tensor, to_mean: Tensor, to_highest: Tensor) -> tuple[Tensor, None]:
        real, some, end, share, below, highest = ctx.saved_tensors
        top = (below == highest).to(real.dtype)  # a closed unit keeps its state: several steps may have the highest
        to_h = real * (to_mean * share)
        to_h.addcmul_(top, to_highest * some / top.sum(0))
        return to_h.scatter_add_(0, end, (to_last * some).unsqueeze(0)), None


def pool_every_step(h: Tensor, lengths: Tensor) -> Pooled:
    """Last, mean and highest so far, (T, B, H); after the end of a sequence they are undefined."""
    count = torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype)[:, None, None]
    return Pooled(h, h.cumsum(0) / count, h.cummax(0).values)


def columns(features: int, variables: int, static: int) -> int:
    """The number of summaries."""
    return 2 * features + 3 * variables + static


def summaries(x: Tensor, static: Tensor, lengths: Tensor, variables: int, every_step: bool) -> Tensor:
    """Summaries of the inputs x (T, B, D) over each sequence, (B, columns), or up to each step, (T, B, columns).

    In this order: the last and mean inputs; the highest and lowest values of the variables, and their change since the first
    measurement; the static inputs. Padding may be anything.
    """
    pool = pool_every_step if every_step else pool_last
    values, masks = x[..., :variables], x[..., variables : 2 * variables]
    last, mean, _ = pool(x, lengths)
    highest, lowest = pool(values, lengths).highest, -pool(-values, lengths).highest
    real = valid_steps(len(x), lengths).unsqueeze(-1)
    first = torch.where(real, masks, 0.0).argmax(0, keepdim=True)  # a variable that is never measured is 0 at every step
    change = last[..., :variables] - values.gather(0, first).squeeze(0)
    if every_step:
        steps = torch.arange(len(x), device=x.device)[:, None, None]
        change = torch.where(steps >= first, change, 0.0)
    return torch.cat([last, mean, highest, lowest, change, static.expand(*last.shape[:-1], -1)], -1)


class Pieces(nn.Module):
    """Each summary as pieces between the quantiles of its training rows, so that a linear layer can bend at each of them.

    A piece is 0 below its lower quantile, 1 above its upper one, and linear between them (piecewise linear encoding, Gorishniy
    et al. 2022). Then it is centred and scaled.

    Args:
        columns: number of summaries.
        count: pieces of each.

    Shape:
        - input: (..., columns).
        - output: (..., count * columns), the first pieces of all summaries before the second ones.
    """

    start: Tensor
    slope: Tensor
    center: Tensor
    factor: Tensor

    def __init__(self, columns: int, count: int) -> None:
        super().__init__()
        for name in ("start", "slope", "center", "factor"):
            self.register_buffer(name, torch.zeros(count, columns))

    def forward(self, rows: Tensor) -> Tensor:
        """The pieces of summaries."""
        return ((self.cut(rows) - self.center) * self.factor).flatten(-2)

    def cut(self, rows: Tensor) -> Tensor:
        """Pieces before scaling, (..., count, columns), from 0 to 1."""
        return ((rows.unsqueeze(-2) - self.start) * self.slope).clamp(0.0, 1.0)

    @torch.no_grad()
    def measure(self, rows: Tensor) -> None:
        """Set quantiles and scales from the summaries of the training, (rows, columns)."""
        rows = rows[:: 1 + len(rows) // ROWS].double()
        knots = torch.quantile(rows, torch.linspace(0, 1, len(self.start) + 1, dtype=rows.dtype), dim=0)
        width = knots.diff(dim=0)
        self.start.copy_(knots[:-1])
        self.slope.copy_(torch.where(width > LEAST_WIDTH, 1 / width, 0.0))
        for piece, (start, slope) in enumerate(zip(self.start, self.slope, strict=True)):
            cut = ((rows - start) * slope).clamp(0.0, 1.0)
            self.center[piece] = cut.mean(0)
            self.factor[piece] = SPREAD / (cut.std(0, correction=0) + LEAST_SPREAD)
        self.factor[self.slope == 0] = 0.0

    @property
    def used(self) -> int:
        """The number of pieces that are not always 0."""
        return int((self.slope > 0).sum())

    def extra_repr(self) -> str:
        """The numbers of pieces and columns."""
        return f"columns={self.start.shape[1]}, count={self.start.shape[0]}"
