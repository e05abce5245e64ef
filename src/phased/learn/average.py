"""Copies of parameters that training keeps: the moving average, and the weights of the best epoch."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from phased import tracing
from phased.parameters import tensors


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
        tracing.lerp_(self.values, self.learned, weight)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the parameters of the model with the averages. A second call restores the parameters."""
        for value, parameter in zip(self.values, self.learned, strict=True):
            kept = value.clone()
            value.copy_(parameter)
            parameter.copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages and the number of steps, for a checkpoint."""
        return {"values": list(self.values), "step": self.step}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore values and number of steps from `state_dict`."""
        for value, saved in zip(self.values, state["values"], strict=True):
            value.copy_(saved)
        self.step = state["step"]


class Last:
    """Training ends after a number of epochs, and the model keeps the weights of the last epoch.

    Args:
        epochs: number of epochs, at most `Training.epochs`. Schedules depend only on `Training.epochs`.
    """

    changing: ClassVar[tuple[str, ...]] = ("epoch",)  # attributes that a checkpoint has

    def __init__(self, epochs: int) -> None:
        self.epochs, self.epoch = epochs, 0  # 0: no epoch yet

    @property
    def over(self) -> bool:
        """Whether training has ended."""
        return self.epoch >= self.epochs

    def take(self, model: nn.Module, epoch: int, test: float) -> None:
        """Take the result of an epoch into account."""
        self.epoch = epoch

    def restore(self, model: nn.Module) -> None:
        """Give the model its final weights."""

    def state_dict(self) -> dict[str, Any]:
        """Return what changes, for a checkpoint."""
        return {name: getattr(self, name) for name in self.changing}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it from `state_dict`."""
        vars(self).update((name, state[name]) for name in self.changing)


class Best(Last):
    """Early stopping: training ends after `patience` epochs without a lower test result, with the weights of the best epoch.

    Epochs before number `least` are forgotten at the end of epoch `least`. A network after little training may reach the lowest
    result by chance, on a few hundred held-out sequences.

    Args:
        patience: number of epochs.
        least: first epoch that is not forgotten, at most `patience`. Default: `patience`.
    """

    changing = ("epoch", "test", "waited", "values")

    def __init__(self, patience: int, least: int | None = None) -> None:
        self.patience, self.least = patience, patience if least is None else min(least, patience)
        self.epoch, self.test, self.waited = 0, math.inf, 0
        self.values: dict[str, Tensor] = {}  # the weights of the best epoch

    @property
    def over(self) -> bool:
        """Whether training has ended."""
        return self.waited >= self.patience

    def take(self, model: nn.Module, epoch: int, test: float) -> None:
        """Take the result of an epoch into account, and copy the weights if it is the best."""
        self.waited += 1
        if test < self.test or (epoch == self.least and not math.isnan(test)):
            self.epoch, self.test, self.waited = epoch, test, 0
            self.values = {name: value.detach().clone() for name, value in tensors(model)}

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        """Copy the weights of the best epoch to the model. Before the first epoch the model does not change."""
        for name, value in tensors(model) if self.epoch else ():
            value.copy_(self.values[name])
