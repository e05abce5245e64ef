"""Model: what the training loop requires of a network."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from phased.learn.batch import Batch
from phased.learn.metric import Objective


class Updates(NamedTuple):
    """The number of updates of units, and the number with every unit open at every step; both are scalars."""

    made: Tensor
    possible: Tensor


class Model(nn.Module):
    """A network that can be trained by `phased.learn.fit`: a torch module with three methods.

    `forward` is required. `updates` and `penalty` are for networks with time gates; the defaults return None. A module with these
    three methods can be trained without being a subclass. A checkpoint identifies its model by `repr(model)`, so settings that no
    submodule prints belong in `extra_repr`.
    """

    @property
    def recordable(self) -> bool:
        """Whether `phased run` may replay its training steps as CUDA graphs; see `recorded` of `phased.learn.fit`."""
        return False

    @property
    def objective(self) -> Objective | None:
        """The loss and the test result of `phased run`; None for the usual ones."""
        return None

    def forward(self, batch: Batch) -> Tensor:
        """The output for a batch.

        Args:
            batch: the sequences; a model may not use their labels.

        Returns:
            (B, classes), or (B,) to predict a number. With one label per step, (T, B, classes) or (T, B).
        """
        raise NotImplementedError

    def updates(self, batch: Batch) -> Updates | None:
        """The number of updates that this batch takes in eval; None for a network without time gates."""
        return None

    def penalty(self) -> Tensor | None:
        """The term that is added to the loss, times `Training.openness_cost`; None for a network without time gates."""
        return None
