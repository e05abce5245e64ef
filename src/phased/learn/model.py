"""Model: what the training loop needs to know of a network."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from phased.learn.batch import Batch


class Updates(NamedTuple):
    """How many updates of units were made, and how many there would be with every unit at every step; both are numbers."""

    made: Tensor
    possible: Tensor


class Model(nn.Module):
    """A network that can be trained by `phased.learn.fit`: a torch module with three methods.

    `forward` is required. `updates` and `penalty` are for networks with time gates; as they stand here, they say there are none.
    Any module with these three methods will do; it need not be a subclass. A checkpoint knows its model by its `repr`: numbers
    that no submodule shows go into `extra_repr`.
    """

    def forward(self, batch: Batch) -> Tensor:
        """The answer: (B, classes), or (B,) to predict a number; with a label a step (T, B, classes) or (T, B)."""
        raise NotImplementedError

    def updates(self, batch: Batch) -> Updates | None:
        """The updates that this batch takes in eval; None for a network without time gates."""
        return None

    def penalty(self) -> Tensor | None:
        """What `Training.openness_cost` multiplies and adds to the loss; None for a network without time gates."""
        return None
