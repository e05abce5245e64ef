"""Taught: a model that learns beside a teacher, from the labels and from the teacher's probabilities."""

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
    """The losses of student and teacher, added; a test measures the student alone.

    The student's loss is `share` times the cross entropy with the teacher's probabilities, and 1 - `share` times the one with the
    labels. The teacher learns from the labels alone.
    """

    share: float

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """The sum of the losses of both; of an answer of the student alone, its cross entropy with the labels."""
        if answer.dim() == 2:
            return sum_of_losses(answer, batch)
        student, teacher = answer
        from_teacher = functional.cross_entropy(student, teacher.detach().softmax(-1), reduction="sum")
        own = (1 - self.share) * sum_of_losses(student, batch) + self.share * from_teacher
        return own + sum_of_losses(teacher, batch)

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """The number of sequences whose class the student finds."""
        answer, y = labelled(answer, batch)
        return (answer.argmax(-1) == y).sum()


class Taught(Model):
    """A student and a teacher, two models that classify the same sequences and are trained on the same batches.

    The teacher may be of a kind that the student must not be: one that sees a whole recording at once, say. Its probabilities say
    which other classes a sequence resembles, so the student learns more from a sequence than from its label alone. In eval the
    student is computed alone. A training clips the gradients of both together, and does not smooth their labels.

    Args:
        student: classifies sequences; it has the time gates, if there are any.
        teacher: classifies the same sequences.
        share: weight of the teacher's probabilities in the student's loss, from 0 to 1; the rest is that of the labels.

    Shape:
        (B, classes) in eval. In training (2, B, classes): the outputs of student and teacher, for `objective`.
    """

    def __init__(self, student: Model, teacher: Model, share: float) -> None:
        super().__init__()
        self.student, self.teacher, self.share = student, teacher, share

    @property
    def objective(self) -> Objective:
        """The losses of both."""
        return TaughtObjective(self.share)

    def forward(self, batch: Batch) -> Tensor:
        """The student's output; in training, both."""
        answer: Tensor = self.student(batch)
        return torch.stack([answer, self.teacher(batch)]) if self.training else answer

    def updates(self, batch: Batch) -> Updates | None:
        """The student's."""
        return self.student.updates(batch)

    def penalty(self) -> Tensor | None:
        """The student's."""
        return self.student.penalty()

    def extra_repr(self) -> str:
        """What no submodule prints."""
        return f"share={self.share}"


STUDENT = "student."  # before the names of the student's parameters


def student_of(state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The state_dict of the student alone, with the settings of its layers; that of a model without a teacher as it is."""
    if not any(name.startswith(STUDENT) for name in state):
        return state
    own: Any = OrderedDict((name.removeprefix(STUDENT), value) for name, value in state.items() if name.startswith(STUDENT))
    metadata = getattr(state, "_metadata", {})
    own._metadata = {name.removeprefix(STUDENT): value for name, value in metadata.items() if name.startswith(STUDENT)}
    return cast("Mapping[str, Tensor]", own)
