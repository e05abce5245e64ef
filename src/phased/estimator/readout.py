"""The readout: a linear layer over the last, mean and highest states of a sequence, and over pieces of its summaries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from phased.estimator.summary import Pieces
from phased.ops.native import KINDS, address, contiguous, core
from phased.schedule import valid_steps


def read_out(h: Tensor, lengths: Tensor, keep: Tensor | None, summaries: Tensor, pieces: Pieces, head: nn.Linear) -> Tensor:
    """The outputs (B, outputs) of the head, whose columns are those of the pooled states and then those of the pieces.

    Args:
        h: states (T, B, H), between -1 and 1; after the end of a sequence they may be anything.
        lengths: steps of each sequence, (B,).
        keep: factors of the pooled states, (B, 3 * H), as dropout makes them; None for ones.
        summaries: of the inputs, (B, columns), which get no gradient.
        pieces: of the summaries.
        head: the linear layer.
    """
    (_, batch, units), (count, columns) = h.shape, pieces.start.shape
    alike = h.dtype == summaries.dtype == pieces.start.dtype == head.weight.dtype and h.dtype in KINDS
    fits = (
        lengths.shape == (batch,)
        and summaries.shape == (batch, columns)
        and head.weight.shape[1] == 3 * units + count * columns
        and (keep is None or keep.shape == (batch, 3 * units))
    )
    if core is None or not (h.is_cpu and alike and fits):  # the core does not look at sizes; torch says which do not fit
        return by_torch(h, lengths, keep, summaries, pieces, head)
    cuts = [pieces.start, pieces.slope, pieces.center, pieces.factor]
    result: Tensor = _ByCore.apply(h, head.weight, head.bias, lengths, keep, summaries.detach(), *cuts)  # type: ignore[no-untyped-call]
    return result


def by_torch(h: Tensor, lengths: Tensor, keep: Tensor | None, summaries: Tensor, pieces: Pieces, head: nn.Linear) -> Tensor:
    """The same on a GPU, and without the core."""
    states = torch.cat(pool_states(h, lengths), -1)
    return two_products(states if keep is None else states * keep, pieces(summaries.detach()), head)


def two_products(states: Tensor, pieces: Tensor, head: nn.Linear) -> Tensor:
    """The head's outputs for rows of states and pieces.

    Pieces need no gradient: a product of their own saves one of 30 times as many numbers as the states are.
    """
    of_states, of_pieces = head.weight.tensor_split([states.shape[-1]], -1)
    return linear(states, of_states, head.bias) + linear(pieces, of_pieces)


class _ByCore(torch.autograd.Function):
    """The same by the compiled core: in one call forwards and one backwards, where torch takes dozens of operators."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor, keep: Tensor | None, *given: Tensor
    ) -> Tensor:
        units, outputs = h.shape[-1], len(weight)
        # The core reads lengths as int64.
        tensors = [contiguous(tensor) for tensor in (h, weight, bias, lengths.to(torch.int64), *given)]
        keep = None if keep is None else contiguous(keep)
        y, states, count = h.new_empty(h.shape[1], outputs), h.new_empty(h.shape[1], 3, units), h.new_empty(h.shape[1:])
        problem = readout_of(tensors, keep)
        getattr(core, f"read_out{KINDS[h.dtype]}")(problem, address(states), address(count), address(y))
        ctx.save_for_backward(*tensors, keep, states, count)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_y: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, keep, states, count = ctx.saved_tensors
        to = [torch.empty_like(tensor) for tensor in tensors[:3]]
        given = [states, count, contiguous(to_y), *to]
        getattr(core, f"read_out_backward{KINDS[states.dtype]}")(readout_of(tensors, keep), *map(address, given))
        return *to, *([None] * (len(tensors) - 2))


def readout_of(tensors: list[Tensor], keep: Tensor | None) -> Any:
    """The core's argument."""
    h, weight, bias, lengths, summary, *pieces = tensors
    sizes = (*h.shape, summary.shape[-1], len(pieces[0]), len(weight))
    cuts = [address(each) for each in pieces]
    made = getattr(core, f"Readout{KINDS[h.dtype]}")
    return made(sizes, address(h), address(lengths), address(keep), address(summary), cuts, address(weight), address(bias))


def pool_every_step(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Last, mean and highest states up to each step, (T, B, H) each; after the end of a sequence they are undefined."""
    count = torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype)[:, None, None]
    return h, h.cumsum(0) / count, h.cummax(0).values


def pool_states(h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Last, mean and highest states of each sequence, (B, H) each; zeros for one without steps.

    The states (T, B, H) are between -1 and 1. Padding may be any finite number.
    """
    found: tuple[Tensor, Tensor, Tensor] = _States.apply(h, lengths.to(torch.int64))  # type: ignore[no-untyped-call]
    return found


class _States(torch.autograd.Function):
    """`pool_states`, many times as fast, forwards and backwards, as torch makes it of its definition."""

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
