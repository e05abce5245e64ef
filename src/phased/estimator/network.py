"""The network: a recurrent layer over the steps of a sequence, a readout of its states, and a linear layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from phased.cost import updates
from phased.estimator.inputs import width
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.batch import Batch
from phased.learn.model import Model, Updates
from phased.schedule import valid_steps

Cell = Literal["phased_lstm", "phased_gru", "lstm", "gru"]
CELLS: tuple[str, ...] = get_args(Cell)
STEPS, STATIC = "steps", "static"
"""The streams of a batch: the inputs of the steps, and one sample with those of the static variables."""

POOLED, LEAST_SPREAD = 0.3, 0.001
"""Spread of the pooled inputs after scaling: below that of states, so that both are learned at a similar pace; and the least
spread before it."""


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

    A linear layer reads the last, mean and highest states of the recurrent layer. It also reads the inputs: last, mean, highest
    and lowest values. These give it what a linear model of a sequence has, which a recurrent layer needs much data to learn.

    Args:
        variables: variables measured over time; a step has `phased.estimator.inputs.width` inputs.
        static: inputs of static variables; the layer reads them at every step, and the linear layer too.
        units: units of the layer.
        outputs: classes, or 1 to predict a number.
        every_step: one answer at each step, instead of one after the last.
        cell: one of CELLS.
        dropout: probability that an input of the linear layer is zeroed in training.
        gate: settings of a phased layer's gates.
    """

    center: Tensor
    factor: Tensor

    def __init__(
        self,
        variables: int,
        static: int,
        units: int,
        outputs: int,
        every_step: bool = False,
        cell: str = "phased_lstm",
        dropout: float = 0.0,
        **gate: Any,
    ) -> None:
        super().__init__()
        features = width(variables)
        phased = {"phased_lstm": PhasedLSTM, "phased_gru": PhasedGRU}.get(cell)
        self.rnn: PhasedRNN | Plain = (
            phased(features + static, units, learn_ratio_on=True, **gate)
            if phased is not None
            else Plain(cell, features + static, units)
        )
        self.dropout = nn.Dropout(dropout)
        self.sizes = Sizes(units, features, variables, static)
        self.head = nn.Linear(self.sizes.states + self.sizes.pooled, outputs)
        nn.init.zeros_(self.head.weight[:, self.sizes.states :].detach())
        self.register_buffer("center", torch.zeros(self.sizes.pooled))
        self.register_buffer("factor", torch.ones(self.sizes.pooled))
        self.every_step, self.outputs = every_step, outputs

    def forward(self, batch: Batch) -> Tensor:
        """(B, outputs), or (T, B, outputs) at every step; without the last dimension to predict a number."""
        (x, time, lengths), static = batch.streams[STEPS], batch.streams[STATIC].x[0]
        whole = torch.cat([x, static.expand(len(x), *static.shape)], -1) if self.sizes.static else x
        h, _ = self.rnn(whole, time, lengths=lengths)
        pooled = (self.pooled(x, static, lengths) - self.center) * self.factor
        y: Tensor = self.head(self.dropout(torch.cat([*self.pool(h, lengths), pooled], -1)))
        return y.squeeze(-1) if self.outputs == 1 else y

    def pool(self, h: Tensor, lengths: Tensor) -> Pooled:
        """Last, mean and highest of h (T, B, H), over each sequence or up to each step."""
        return (pool_every_step if self.every_step else pool_last)(h, lengths)

    def pooled(self, x: Tensor, static: Tensor, lengths: Tensor) -> Tensor:
        """What the linear layer reads of the inputs: last, mean, highest and lowest values, and the static ones."""
        last, mean, _ = self.pool(x, lengths)
        values = x[..., : self.sizes.variables]
        highest, lowest = self.pool(values, lengths).highest, -self.pool(-values, lengths).highest
        return torch.cat([last, mean, highest, lowest, static.expand(*last.shape[:-1], -1)], -1)

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch]) -> None:
        """Set centre and factor of the pooled inputs from the training sequences."""
        found = []
        for batch in batches:
            inputs, _, lengths = batch.streams[STEPS]
            made = self.pooled(inputs, batch.streams[STATIC].x[0], lengths)
            found.append(made[valid_steps(len(made), lengths)] if self.every_step else made)
        rows = torch.cat(found).double()
        self.center.copy_(rows.mean(0))
        # The least spread keeps a column of one value finite. The mean mask of a rare variable varies little, and is magnified.
        self.factor.copy_(POOLED / (rows.std(0, correction=0) + LEAST_SPREAD))

    def extra_repr(self) -> str:
        """The settings that no submodule prints."""
        return f"every_step={self.every_step}, outputs={self.outputs}"

    def updates(self, batch: Batch) -> Updates | None:
        """The number of updates of the layer's units; None for a plain layer."""
        if not isinstance(self.rnn, PhasedRNN):
            return None
        _, time, lengths = batch.streams[STEPS]
        return Updates(updates(self.rnn, time, lengths).sum(), lengths.sum() * self.rnn.hidden_size)


class Sizes(NamedTuple):
    """What the linear layer reads, in this order: three vectors of units, two of features, two of variables, static inputs."""

    units: int
    features: int
    variables: int
    static: int

    @property
    def states(self) -> int:
        """Inputs from the recurrent layer."""
        return 3 * self.units

    @property
    def pooled(self) -> int:
        """Inputs from the inputs."""
        return 2 * self.features + 2 * self.variables + self.static


class Pooled(NamedTuple):
    """What is read from a sequence of vectors."""

    last: Tensor
    mean: Tensor
    highest: Tensor


def pool_last(h: Tensor, lengths: Tensor) -> Pooled:
    """Last, mean and highest of h (T, B, H) over each sequence, (B, H); zeros for one without steps."""
    some = (lengths > 0).unsqueeze(-1)
    real = valid_steps(len(h), lengths).unsqueeze(-1)
    last = h[(lengths - 1).clamp(min=0), torch.arange(h.shape[1], device=h.device)]
    mean = torch.where(real, h, 0.0).sum(0) / lengths.clamp(min=1).unsqueeze(-1)
    highest = torch.where(real, h, -torch.inf).amax(0)
    return Pooled(torch.where(some, last, 0.0), mean, torch.where(some, highest, 0.0))


def pool_every_step(h: Tensor, lengths: Tensor) -> Pooled:
    """Last, mean and highest so far, (T, B, H); after the end of a sequence they are undefined."""
    count = torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype)[:, None, None]
    return Pooled(h, h.cumsum(0) / count, h.cummax(0).values)
