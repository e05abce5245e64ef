"""Taught: a student network, trained together with a teacher on the labels and on the teacher's probabilities."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from phased.learn.batch import Batch
from phased.learn.metric import Objective, labelled, sum_of_losses
from phased.learn.model import Model, Updates


@dataclass(frozen=True)
class TaughtObjective:
    """Sum of the losses of student and teacher. A test measures the student.

    The student's loss is `share` times the cross entropy with the teacher's probabilities, and 1 - `share` times the one with the
    labels. The teacher learns from the labels alone.
    """

    share: float

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """Return the sum of both losses, or the cross entropy of an output of the student with the labels."""
        if answer.dim() == 2:
            return sum_of_losses(answer, batch)
        student, teacher = answer
        from_teacher = functional.cross_entropy(student, teacher.detach().softmax(-1), reduction="sum")
        own = (1 - self.share) * sum_of_losses(student, batch) + self.share * from_teacher
        return own + sum_of_losses(teacher, batch)

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """Return the number of sequences that the student classifies correctly."""
        answer, y = labelled(answer, batch)
        return (answer.argmax(-1) == y).sum()


class Taught(Model):
    """Student and teacher, two classifiers that are trained on the same batches.

    The teacher may see a whole recording at once, which the student must not. Its probabilities rank the classes that a sequence
    resembles, so the student learns more from a sequence than the label. In eval only the student is computed. A training clips
    the gradients of both together and does not smooth the labels.

    Args:
        student: classifies sequences. Updates and penalties are counted for the student.
        teacher: classifies the same sequences.
        share: weight of the teacher's probabilities in the student's loss, from 0 to 1. The labels have the weight 1 - share.

    Shape:
        (B, classes) in eval. In training (2, B, classes): the outputs of student and teacher, for `objective`.
    """

    def __init__(self, student: Model, teacher: Model, share: float) -> None:
        super().__init__()
        self.student, self.teacher, self.share = student, teacher, share

    @property
    def objective(self) -> Objective:
        """The sum of both losses."""
        return TaughtObjective(self.share)

    def forward(self, batch: Batch) -> Tensor:
        """Return the student's output, or both outputs in training."""
        answer: Tensor = self.student(batch)
        return torch.stack([answer, self.teacher(batch)]) if self.training else answer

    def updates(self, batch: Batch) -> Updates | None:
        """Return the updates of the student."""
        return self.student.updates(batch)

    def penalty(self) -> Tensor | None:
        """Return the penalty of the student."""
        return self.student.penalty()

    def extra_repr(self) -> str:
        """Return the setting that no submodule prints."""
        return f"share={self.share}"


STUDENT = "student."  # before the names of the student's parameters


def student_of(state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the state_dict of the student with the settings of its layers. Other state_dicts are returned unchanged."""
    if not any(name.startswith(STUDENT) for name in state):
        return state
    own: Any = OrderedDict((name.removeprefix(STUDENT), value) for name, value in state.items() if name.startswith(STUDENT))
    metadata = getattr(state, "_metadata", {})
    own._metadata = {name.removeprefix(STUDENT): value for name, value in metadata.items() if name.startswith(STUDENT)}
    return cast("Mapping[str, Tensor]", own)
