"""Early stopping: the weights of the best epoch, and when further epochs are of no use."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from phased.parameters import tensors


class Best:
    """The weights of the epoch with the lowest test result so far; `over` after `patience` epochs without a lower one.

    Epochs before number `patience` are forgotten when that one is over: a network that has hardly been trained may have the
    lowest result by chance, on a few hundred held-out sequences, and would be kept.

    Args:
        patience: the number of epochs without a lower test result after which training ends.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.epoch, self.test = 0, math.inf  # 0: no epoch yet
        self.waited = 0
        self.weights: dict[str, Tensor] = {}

    @property
    def over(self) -> bool:
        """Whether training has ended."""
        return self.waited >= self.patience

    def take(self, model: nn.Module, epoch: int, test: float) -> None:
        """Take the result of an epoch into account, and copy the weights if it is the best."""
        self.waited += 1
        if test < self.test or (epoch == self.patience and not math.isnan(test)):
            self.epoch, self.test, self.waited = epoch, test, 0
            self.weights = {name: value.detach().clone() for name, value in tensors(model)}

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        """Give the model the weights of the best epoch; without an epoch it stays as it is."""
        for name, value in tensors(model) if self.epoch else ():
            value.copy_(self.weights[name])

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"epoch": self.epoch, "test": self.test, "waited": self.waited, "values": self.weights}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.epoch, self.test, self.waited = state["epoch"], state["test"], state["waited"]
        self.weights = dict(state["values"])
