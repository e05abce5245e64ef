"""LSTMs whose gates have fixed values, and their cell state at every step of a sequence; a layer returns only the last one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from phased_lab.runs.descriptor import Array

# A sigmoid of +SATURATED is exactly 1 in floating point, of -SATURATED exactly 0.
SATURATED = 1000.0


@torch.no_grad()
def set_gates(lstm: nn.Module, i: float, f: float, o: float, x: float = 0.0) -> None:
    """Set the biases of the gates, and the weight of the input in the candidate; all other weights and biases to zero."""
    for name, values in lstm.named_parameters():
        if name.startswith(("weight", "bias")):
            values.zero_()
    for gate, bias in zip(lstm.get_parameter("bias_ih_l0").chunk(4), (i, f, 0.0, o), strict=True):
        gate.fill_(bias)
    lstm.get_parameter("weight_ih_l0").chunk(4)[2].fill_(x)


@torch.no_grad()
def cell_states(layer: Any, start: tuple[Tensor, Tensor], *inputs: Tensor) -> Array:
    """The cell state before the first step and after each one, (T + 1, H); `inputs` are (T, ...)."""
    states = [start]
    for step in zip(*(torch.split(each, 1) for each in inputs), strict=True):
        states.append(layer(*step, states[-1])[1])
    return torch.cat([c for _, c in states]).double().numpy()
