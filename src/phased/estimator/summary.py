"""What the linear layer reads of the inputs: summaries of each over a sequence, as pieces between quantiles."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phased.estimator.recent import recent
from phased.schedule import valid_steps

REAL = torch.float32
"""Of inputs and network, whatever torch's default is."""
PIECES = 8
"""Pieces of a summary where a sequence has one target."""
PIECES_OF_STEPS = 4
"""Pieces where every step has a target. A batch has a summary for every step then, so more pieces take more memory."""
SPREAD, LEAST_SPREAD = 0.2, 0.001
"""Spread of a piece after scaling: below that of states, of which there are fewer; and the least spread before it."""
LEAST_WIDTH = 1e-4
"""Pieces narrower than this are 0: they would magnify rounding."""
ROWS, CHUNK = 20_000, 32
"""Largest number of rows on which a network measures quantiles, and number of columns that are measured together."""


def columns(features: int, variables: int, static: int) -> int:
    """The number of summaries."""
    return 2 * features + 4 * variables + static


def summaries(x: Tensor, static: Tensor, lengths: Tensor, variables: int, every_step: bool) -> Tensor:
    """Summaries of the inputs x (T, B, D) over each sequence, (B, columns), or up to each step, (T, B, columns).

    In this order: the last and mean inputs; of the variables the highest and lowest recent values and the roughness
    (`phased.estimator.recent`), and the change since the first measurement; the static inputs. Padding may be anything.
    """
    values, masks = x[..., :variables], x[..., variables : 2 * variables]
    real = valid_steps(len(x), lengths).unsqueeze(-1)
    if every_step:
        steps = torch.arange(len(x), device=x.device)[:, None, None]
        last, mean = x, x.cumsum(0) / (steps + 1).to(x.dtype)
    else:
        at = (lengths - 1).clamp(min=0), torch.arange(x.shape[1], device=x.device)
        last = torch.where((lengths > 0).unsqueeze(-1), x[at], 0.0)
        mean = torch.where(real, x, 0.0).sum(0) / lengths.clamp(min=1).unsqueeze(-1)
    first = torch.where(real, masks, 0.0).argmax(0, keepdim=True)  # a variable that is never measured is 0 at every step
    change = last[..., :variables] - values.gather(0, first).squeeze(0)
    begun = steps >= first if every_step else (lengths > 0).unsqueeze(-1)
    change = torch.where(begun, change, 0.0)
    extremes = recent(x, lengths, variables, every_step)
    return torch.cat([last, mean, extremes, change, static.expand(*last.shape[:-1], -1)], -1)


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
            self.register_buffer(name, torch.zeros(count, columns, dtype=REAL))

    def forward(self, rows: Tensor) -> Tensor:
        """The pieces of summaries."""
        return self.cut(rows).sub_(self.center).mul_(self.factor).flatten(-2)

    def cut(self, rows: Tensor) -> Tensor:
        """Pieces before scaling, (..., count, columns), from 0 to 1."""
        return cut(rows, self.start, self.slope)

    @torch.no_grad()
    def measure(self, rows: Tensor) -> None:
        """Set quantiles and scales from the summaries of the training, (rows, columns)."""
        at = torch.linspace(0, 1, len(self.start) + 1, dtype=torch.float64)
        for first in range(0, rows.shape[1], CHUNK):  # in float64 all columns take several times their memory
            own = slice(first, first + CHUNK)
            self._measure(rows[:, own].double(), at, own)
        self.factor[self.slope == 0] = 0.0

    def _measure(self, rows: Tensor, at: Tensor, own: slice) -> None:
        """Set quantiles and scales of some columns."""
        knots = torch.quantile(rows, at, dim=0)
        width = knots.diff(dim=0)
        self.start[:, own] = knots[:-1]
        self.slope[:, own] = torch.where(width > LEAST_WIDTH, 1 / width, 0.0)
        for piece, (start, slope) in enumerate(zip(self.start[:, own], self.slope[:, own], strict=True)):
            cut = ((rows - start) * slope).clamp(0.0, 1.0)
            self.center[piece, own] = cut.mean(0)
            self.factor[piece, own] = SPREAD / (cut.std(0, correction=0) + LEAST_SPREAD)

    @property
    def used(self) -> int:
        """The number of pieces that are not always 0."""
        return int((self.slope > 0).sum())

    def extra_repr(self) -> str:
        """The numbers of pieces and columns."""
        return f"columns={self.start.shape[1]}, count={self.start.shape[0]}"


def cut(rows: Tensor, start: Tensor, slope: Tensor) -> Tensor:
    """Pieces (..., count, columns) of summaries (..., columns): 0 up to `start`, then rising to 1."""
    return (rows.unsqueeze(-2) - start).mul_(slope).clamp_(0.0, 1.0)
