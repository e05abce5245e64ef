"""Recent extremes of variables, the highest and lowest last-known values forgotten over time, and how rough variables are."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.ops.native import KINDS, address, contiguous, contiguous_rows, core

RATE = 16.0
"""How fast an extreme is forgotten: its distance from the present value falls by a factor of e in this part of a median span."""


def recent(x: Tensor, lengths: Tensor, variables: int, every_step: bool) -> Tensor:
    """Highest, lowest and roughness of each variable, (B, 3 * variables), or (T, B, 3 * variables) up to each step.

    Of the inputs x (T, B, D) the first are last-known values, the next whether they are new, and the last one is the time in
    median spans. Padding may be anything, and results there are undefined. A sequence without steps has zeros.
    """
    if core is None or not x.is_cpu or x.dtype not in KINDS:
        return by_torch(x, lengths, variables, every_step)
    (steps, batch, features), x, lengths = x.shape, contiguous_rows(x), contiguous(lengths.to(torch.int64))
    made = x.new_zeros(*((steps,) if every_step else ()), batch, 3 * variables)
    to_step, to_sequence = (made.stride() if every_step else (0, *made.stride()))[:2]
    sizes = (steps, batch, variables, features, x.stride(0), x.stride(1), to_step, to_sequence)
    getattr(core, f"recent{KINDS[x.dtype]}")(sizes, address(x), address(lengths), address(made), RATE)
    return made


def by_torch(x: Tensor, lengths: Tensor, variables: int, every_step: bool) -> Tensor:
    """The same on a GPU, and without the core."""
    values, new, time = x[..., :variables], x[..., variables : 2 * variables], x[..., -1:]
    if not len(x):
        return x.new_zeros(*((0,) if every_step else ()), x.shape[1], 3 * variables)
    count = new.cumsum(0)
    known = (count - new) > 0  # before the step
    change = torch.where(known, values - values.roll(1, 0), 0.0)
    gap = (time - time.roll(1, 0)).clamp(min=0)  # in padding time may go back: its results must be finite, for gradients of 0
    kept = torch.exp(-RATE * gap).expand_as(values)
    above, below = forgotten(kept, -change), forgotten(kept, change)
    roughness = change.abs().cumsum(0) / (count - 1).clamp(min=1)
    found = torch.cat([values + above, values - below, roughness], -1)
    if every_step:
        return found
    last = found[(lengths - 1).clamp(min=0), torch.arange(x.shape[1], device=x.device)]
    return torch.where((lengths > 0).unsqueeze(-1), last, 0.0)


def forgotten(kept: Tensor, added: Tensor) -> Tensor:
    """d[t] = max(kept[t] * d[t - 1] + added[t], 0), where d[0] is 0, for all steps t at once.

    A step is a function max(a * d + b, c), and so are several steps one after another. So twice as many are joined in each round.
    """
    a, b, c = kept.clone(), added.clone(), torch.zeros_like(added)
    a[0], b[0] = 0.0, 0.0
    joined = 1
    while joined < len(a):
        a_now, b_now = a[joined:], b[joined:]
        c_next = torch.maximum(a_now * c[:-joined] + b_now, c[joined:])
        b_next, a_next = a_now * b[:-joined] + b_now, a_now * a[:-joined]
        a, b, c = (torch.cat([old[:joined], new]) for old, new in ((a, a_next), (b, b_next), (c, c_next)))
        joined *= 2
    return torch.maximum(b, c)
