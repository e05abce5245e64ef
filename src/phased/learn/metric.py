"""The loss and the test result of a model's output, and their means over all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from phased.learn.batch import Batch

if TYPE_CHECKING:
    from phased.learn.device import Devices


class Objective(Protocol):
    """What a training minimises and what a test measures, in place of the usual; both are sums over the labels that count."""

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """The sum of the losses, with gradients."""
        ...

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """The sum of the test results."""
        ...


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


def sum_of_losses(
    answer: Tensor, batch: Batch, objective: Objective | None = None, smoothing: float = 0.0, weight: Tensor | None = None
) -> Tensor:
    """Sum over all labels of the cross entropy of classes, with label smoothing and weights, or the squared error of numbers."""
    if objective is not None:
        return objective.loss(answer, batch)
    answer, y = labelled(answer, batch)
    if answer.dim() == 2:
        return functional.cross_entropy(answer, y, weight, reduction="sum", label_smoothing=smoothing)
    return functional.mse_loss(answer, y, reduction="sum")


class Scores(NamedTuple):
    """Sums over a batch.

    `score` is the number of correct classes, or the sum of the squared errors of numbers, over `answers` answers: one per label,
    or per segment. `whole` is the number of sequences with all segments right, None without segments.
    """

    score: Tensor
    answers: int
    whole: Tensor | None


def sum_of_scores(answer: Tensor, batch: Batch, labels: int, objective: Objective | None = None) -> Scores:
    """The scores of a batch with so many labels."""
    if objective is not None:
        return Scores(objective.score(answer, batch), labels, None)
    if batch.segment is not None:
        return scores_of_segments(answer, batch, batch.segment)
    answer, y = labelled(answer, batch)
    if answer.dim() == 2:
        return Scores((answer.argmax(-1) == y).sum(), labels, None)
    return Scores(functional.mse_loss(answer, y, reduction="sum"), labels, None)


def scores_of_segments(answer: Tensor, batch: Batch, segment: Tensor) -> Scores:
    """The scores of segments: the answer is the class with the largest sum of log-probabilities over a segment's steps."""
    rows, y = labelled(answer, batch)
    sequence = torch.arange(batch.size, device=y.device).expand(segment.shape)[batch.mask]
    # Segments of all sequences, numbered from 0 up: those with a step that counts.
    place, which = torch.unique(sequence * (segment.max() + 1) + segment[batch.mask], return_inverse=True)
    sums = rows.new_zeros(len(place), rows.shape[-1]).index_add_(0, which, rows.log_softmax(-1))
    classes, sequences = (torch.empty_like(place).scatter_(0, which, value) for value in (y, sequence))
    wrong = sums.argmax(-1) != classes
    mistaken = torch.zeros(batch.size, dtype=torch.bool, device=y.device).index_put_((sequences[wrong],), wrong[wrong])
    return Scores((~wrong).sum(), len(place), (~mistaken).sum())


def mean(total: float, labels: float) -> float:
    """The mean over all labels."""
    if not labels:
        raise ValueError(
            "at least one label must count in an epoch, got none: the masks of all its batches are False everywhere."
        )
    return total / labels


def summed(values: Mapping[str, Tensor | int], fabric: Devices) -> dict[str, float]:
    """These numbers, each summed over all processes."""
    parts = [torch.as_tensor(value, dtype=torch.float64, device=fabric.device) for value in values.values()]
    return dict(zip(values, fabric.summed(torch.stack(parts)).tolist(), strict=True))
