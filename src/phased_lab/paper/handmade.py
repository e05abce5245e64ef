"""Setting an LSTM's weights by hand, for experiments that need gates with fixed values."""

from __future__ import annotations

from typing import NamedTuple

import torch

# A sigmoid of +SATURATED is exactly 1 in floating point, of -SATURATED exactly 0.
SATURATED = 1000.0


class Rows(NamedTuple):
    """The rows of each gate in `torch.nn.LSTM`'s stacked weights and biases."""

    i: slice
    f: slice
    g: slice
    o: slice


def rows(units: int) -> Rows:
    """The rows of each gate, for this number of units."""
    return Rows(*(slice(n * units, (n + 1) * units) for n in range(4)))


@torch.no_grad()
def silence(lstm: torch.nn.Module) -> None:
    """Set the weights and biases to zero; time gates do not change."""
    for name, values in lstm.named_parameters():
        if name.startswith(("weight", "bias")):
            values.zero_()
