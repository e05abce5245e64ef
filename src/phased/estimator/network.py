"""The network: a recurrent layer over the steps of a sequence, a readout of its states, and a linear layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from phased.cost import updates
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.batch import Batch
from phased.learn.model import Model, Updates
from phased.schedule import valid_steps

Cell = Literal["phased_lstm", "phased_gru", "lstm", "gru"]
CELLS: tuple[str, ...] = get_args(Cell)
STEPS, STATIC = "steps", "static"
"""The streams of a batch: the inputs of the steps, and one sample with those of the static variables."""


class Plain(nn.Module):
    """torch.nn.LSTM or GRU with the signature of a phased layer, for comparisons; the time is among its inputs already."""

    def __init__(self, cell: str, features: int, units: int) -> None:
        super().__init__()
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](features, units)
        self.hidden_size = units

    def forward(self, input: Tensor, time: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        """The output (T, B, H); after the end of a sequence it is undefined."""
        return self.rnn(input)[0], None


class Network(Model):
    """The answer for each sequence, or at each step, from what came so far.

    A linear layer reads the last, mean and highest states of the recurrent layer, the last and mean inputs, and the static ones.
    The inputs give it what a linear model of sequences would have, which a recurrent layer needs much data to learn.

    Args:
        features: inputs of a step.
        static: inputs of static variables; the layer reads them at every step, and the linear layer too.
        units: units of the layer.
        outputs: classes, or 1 to predict a number.
        every_step: one answer at each step, instead of one after the last.
        cell: one of CELLS.
        dropout: probability that an input of the linear layer is zeroed in training.
        gate: settings of a phased layer's gates.
    """

    def __init__(
        self,
        features: int,
        static: int,
        units: int,
        outputs: int,
        every_step: bool = False,
        cell: str = "phased_lstm",
        dropout: float = 0.0,
        **gate: Any,
    ) -> None:
        super().__init__()
        phased = {"phased_lstm": PhasedLSTM, "phased_gru": PhasedGRU}.get(cell)
        self.rnn: PhasedRNN | Plain = (
            phased(features + static, units, learn_ratio_on=True, **gate)
            if phased is not None
            else Plain(cell, features + static, units)
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(3 * units + 2 * features + static, outputs)
        self.every_step, self.outputs = every_step, outputs

    def forward(self, batch: Batch) -> Tensor:
        """(B, outputs), or (T, B, outputs) at every step; without the last dimension to predict a number."""
        steps, static = batch.streams[STEPS], batch.streams[STATIC].x[0]
        x = torch.cat([steps.x, static.expand(len(steps.x), *static.shape)], -1) if static.shape[-1] else steps.x
        h, _ = self.rnn(x, steps.time, lengths=steps.lengths)
        pool = pool_every_step if self.every_step else pool_last
        last, mean, highest = pool(h, steps.lengths)
        parts = [last, mean, highest(), *pool(steps.x, steps.lengths)[:2], static.expand(*last.shape[:-1], -1)]
        read = torch.cat(parts, -1)
        y: Tensor = self.head(self.dropout(read))
        return y.squeeze(-1) if self.outputs == 1 else y

    def extra_repr(self) -> str:
        """The settings that no submodule prints."""
        return f"every_step={self.every_step}, outputs={self.outputs}"

    def updates(self, batch: Batch) -> Updates | None:
        """The number of updates of the layer's units; None for a plain layer."""
        if not isinstance(self.rnn, PhasedRNN):
            return None
        _, time, lengths = batch.streams[STEPS]
        return Updates(updates(self.rnn, time, lengths).sum(), lengths.sum() * self.rnn.hidden_size)


class Pooled(NamedTuple):
    """What is read from a sequence of vectors."""

    last: Tensor
    mean: Tensor
    highest: Callable[[], Tensor]  # computed only where it is used


def pool_last(h: Tensor, lengths: Tensor) -> Pooled:
    """Last, mean and highest of h (T, B, H) over each sequence, (B, H); zeros for one without steps."""
    some = (lengths > 0).unsqueeze(-1)
    real = valid_steps(len(h), lengths).unsqueeze(-1)
    last = h[(lengths - 1).clamp(min=0), torch.arange(h.shape[1], device=h.device)]
    mean = torch.where(real, h, 0.0).sum(0) / lengths.clamp(min=1).unsqueeze(-1)
    return Pooled(torch.where(some, last, 0.0), mean, lambda: torch.where(some, torch.where(real, h, -torch.inf).amax(0), 0.0))


def pool_every_step(h: Tensor, lengths: Tensor) -> Pooled:
    """Last, mean and highest so far, (T, B, H); after the end of a sequence they are undefined."""
    count = torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype)[:, None, None]
    return Pooled(h, h.cumsum(0) / count, lambda: h.cummax(0).values)
