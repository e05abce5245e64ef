"""A quick look at times by the compiled core."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.ops.cpu.core import core
from phased.ops.memory import address


def is_clock(time: Tensor, lengths: Tensor | None) -> bool:
    """Whether times (T, B) on a CPU are float64, finite and never decreasing, except in padding; False where there is no core.

    Five torch operators find the same, which take longer than a small layer's step through Python in all.
    """
    if core is None or time.dtype != torch.float64 or time.is_neg():
        return False
    result: bool = core.is_clock(address(time), *time.shape, *time.stride(), 0 if lengths is None else address(lengths))
    return result
