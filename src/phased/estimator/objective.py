"""What is minimised in training and measured on held-out sequences: cross entropy of classes, squared error of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from phased.learn.batch import Batch
from phased.learn.metric import labelled


@dataclass(frozen=True)
class Objective:
    """Sums over all targets that count.

    Args:
        weights: of the classes, or None for equal weights.
    """

    weights: tuple[float, ...] | None = None

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """Cross entropy, or squared error."""
        answer, y = labelled(answer, batch)
        if answer.dim() == 1:
            return functional.mse_loss(answer, y, reduction="sum")
        weight = None if self.weights is None else torch.tensor(self.weights, dtype=answer.dtype, device=answer.device)
        return functional.cross_entropy(answer, y, weight, reduction="sum")

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """The loss: unlike a rank or a share of correct answers it is a sum, and fine enough to compare epochs by."""
        return self.loss(answer, batch)
