"""An exponential moving average of a model's parameters and statistics over the steps of a training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Average:
    """Averages of a model's learned parameters and of its buffers, such as a batch normalisation's statistics, on its device.

    Early steps have a smaller decay, (1 + step) / (10 + step), so that the average soon forgets the initial parameters.

    Args:
        model: the model; its parameters are in place on their device.
        decay: weight of the average so far, in (0, 1).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.learned: list[Tensor] = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.learned += [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self.values = [parameter.detach().clone() for parameter in self.learned]
        self.decay, self.step = decay, 0

    @torch.no_grad()
    def update(self) -> None:
        """Take the model's parameters after a step into the average."""
        self.step += 1
        weight = 1 - min(self.decay, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(self.values, self.learned, weight)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the parameters in the model with those kept here; a second call restores them."""
        for value, parameter in zip(self.values, self.learned, strict=True):
            kept = value.clone()
            value.copy_(parameter)
            parameter.copy_(kept)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs: the values kept here, and the number of steps."""
        return {"values": list(self.values), "step": self.step}

    @torch.no_grad()
    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for value, saved in zip(self.values, state["values"], strict=True):
            value.copy_(saved)
        self.step = state["step"]
