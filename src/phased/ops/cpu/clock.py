"""A quick look at times by the compiled core."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.ops.core import core
from phased.ops.memory import address, contiguous


def is_clock(time: Tensor, lengths: Tensor | None) -> bool:
    """Whether times (T, B) on a CPU are float64, finite and never decreasing, except in padding; False where there is no core.

    torch needs eight operators for that, which take as long as the rest of a small layer's checks together.
    """
    if core is None or time.dtype != torch.float64 or time.is_neg():
        return False
    own = None if lengths is None else contiguous(lengths)
    result: bool = core.is_clock(address(time), *time.shape, *time.stride(), address(own))
    return result
