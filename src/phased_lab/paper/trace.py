"""The cell state of a layer at every step of a sequence; a layer returns only the last one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

State = tuple[Tensor, Tensor]
Array = NDArray[np.float64]


def cell_states(advance: Callable[[int, State], State], start: State, steps: int) -> Array:
    """The cell state before the first step and after each one, (steps + 1, H).

    `advance(j, (h, c))` runs the layer over step j alone; the result is the same as in one call over all steps.
    """
    states = [start]
    with torch.no_grad():
        for j in range(steps):
            states.append(advance(j, states[-1]))
    return torch.cat([c for _, c in states]).to(torch.float64).numpy()
