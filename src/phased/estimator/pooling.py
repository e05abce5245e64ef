"""Pooling of the recurrent layer: last, mean and highest states, over whole sequences or up to each step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phased.schedule import valid_steps


def pool_every_step(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return last, mean and highest states up to each step, (T, B, H) each. They are undefined after the end of a sequence."""
    count = torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype)[:, None, None]
    return h, h.cumsum(0) / count, h.cummax(0).values


def pool_states(h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return last, mean and highest states of each sequence, (B, H) each. A sequence without steps gets zeros.

    `h` holds states (T, B, H) between -1 and 1. Padding may be any finite number.
    """
    found: tuple[Tensor, Tensor, Tensor] = _States.apply(h, lengths.to(torch.int64))  # type: ignore[no-untyped-call]
    return found


class _States(torch.autograd.Function):
    """Implementation of `pool_states` with its gradient, many times as fast as the composition of torch functions."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        real = valid_steps(len(h), lengths).unsqueeze(-1).to(h.dtype)
        some = (lengths > 0).unsqueeze(-1).to(h.dtype)
        end = (lengths - 1).clamp(min=0).view(1, -1, 1).expand(1, -1, h.shape[-1])
        share = (1 / lengths.clamp(min=1)).unsqueeze(-1).to(h.dtype)
        masked = h * real  # torch.where would take most of the time
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
