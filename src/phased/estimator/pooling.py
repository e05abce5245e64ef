"""Pooling of ragged sequences of vectors: the last, the mean and the highest of each, over a sequence or up to each step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phased.schedule import valid_steps


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
    """The same for states, which are finite and between -1 and 1: many times faster, forwards and backwards."""
    return Pooled(*_States.apply(h, lengths.to(torch.int64)))  # type: ignore[no-untyped-call]


class _States(torch.autograd.Function):
    """`pool_states`."""

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
