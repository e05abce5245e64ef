"""The loss and the test metric of a model's output, and their means over all processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from phased.learn.batch import Batch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def labelled(answer: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Outputs whose label counts, and these labels: (N, classes) and (N,), or (N,) and (N,) for a regression."""
    classes = not batch.y.is_floating_point()
    if answer.shape[: batch.y.dim()] != batch.y.shape or answer.dim() != batch.y.dim() + classes:
        shape = ", ".join([*map(str, batch.y.shape), *(["classes"] if classes else [])])
        what = "classes" if classes else "numbers"
        each = "one label per sequence" if batch.mask is None else "one label per step"
        raise ValueError(
            f"the model's output must have shape ({shape}), because y holds {what}, {each}, got {tuple(answer.shape)}."
        )
    return (answer, batch.y) if batch.mask is None else (answer[batch.mask], batch.y[batch.mask])


def sum_of_losses(answer: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Sum over all labels of the cross entropy of classes, with label smoothing, or the squared error of numbers."""
    answer, y = labelled(answer, batch)
    if answer.dim() == 2:
        return functional.cross_entropy(answer, y, reduction="sum", label_smoothing=smoothing)
    return functional.mse_loss(answer, y, reduction="sum")


def sum_of_scores(answer: Tensor, batch: Batch) -> Tensor:
    """Number of correct classes, or sum of the squared errors of numbers."""
    answer, y = labelled(answer, batch)
    return (answer.argmax(-1) == y).sum() if answer.dim() == 2 else functional.mse_loss(answer, y, reduction="sum")


class Objective(Protocol):
    """What a training minimises, and what a test measures; both are sums over the labels that count."""

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """The sum of the losses, with gradients."""
        ...

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """The sum of the test results."""
        ...


@dataclass(frozen=True)
class Standard:
    """Cross entropy and the number of correct classes; or squared errors of numbers."""

    smoothing: float = 0.0

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """See `sum_of_losses`."""
        return sum_of_losses(answer, batch, self.smoothing)

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """See `sum_of_scores`."""
        return sum_of_scores(answer, batch)


def mean(total: Tensor, labels: int, fabric: Fabric) -> float:
    """The mean over all labels of all processes."""
    above, below = summed(total, labels, fabric)
    if not below:
        raise ValueError(
            "at least one label must count in an epoch, got none: the masks of all its batches are False everywhere."
        )
    return above / below


def summed(above: Tensor, below: Tensor | int, fabric: Fabric) -> tuple[float, float]:
    """Both numbers, summed over all processes."""
    parts = torch.stack([above, torch.as_tensor(below, dtype=above.dtype, device=above.device)])
    sums: Any = fabric.all_reduce(parts, reduce_op="sum")
    first, second = sums.tolist()
    return first, second
