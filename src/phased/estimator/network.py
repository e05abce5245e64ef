"""The network: a recurrent layer over the steps of a sequence, and dense layers before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from phased.cost import openness_cost
from phased.estimator.inputs import shared
from phased.estimator.pairs import MOST as MOST_PAIRED
from phased.estimator.pairs import Pairs
from phased.estimator.pooling import pool_every_step, pool_states
from phased.estimator.shares import Shares
from phased.estimator.summary import PIECES, PIECES_OF_STEPS, REAL, SPREAD, Pieces, columns, summaries
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.batch import Batch
from phased.learn.model import Model
from phased.schedule import valid_steps

Cell = Literal["phased_lstm", "phased_gru", "lstm", "gru"]
CELLS: tuple[str, ...] = get_args(Cell)
STEPS, STATIC, SUMMARY, SHARES = "steps", "static", "summary", "shares"
"""The streams of a batch: the inputs of the steps, one sample with those of the static variables, and, where they were computed
before, one with summaries of the inputs, and one with shares (`phased.estimator.shares`)."""
Part = Literal["network", "convolutions", "both"]
"""The parts of a model whose outputs are its answer: the recurrent network, the random convolutions, or the mean of both."""
MIX: dict[Part, float] = {"network": 0.0, "convolutions": 1.0, "both": 0.5}
"""The weight of the convolutions."""

LOST = 0.2
"""Probability that a variable is left out of a sequence in training, times the share of the steps at which it is not measured."""
PRIOR = 1.4
"""Spread of the log odds, or of the scaled number, that the penalty expects of the pieces together."""


class Plain(nn.Module):
    """torch.nn.LSTM or GRU with the signature of a phased layer, for comparisons; the time is among its inputs already."""

    def __init__(self, cell: str, features: int, units: int) -> None:
        super().__init__()
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](features, units, dtype=REAL)
        self.hidden_size = units

    def forward(self, input: Tensor, time: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        """The output (T, B, H); after the end of a sequence it is undefined."""
        return self.rnn(input)[0], None


class Network(Model):
    """The answer for each sequence, or at each step, from what came so far.

    A dense layer encodes the inputs of a step for the recurrent layer. Another one reads the last, mean and highest states of the
    recurrent layer, and a linear layer gives the outputs. The linear layer also reads summaries of the inputs, in pieces
    (`phased.estimator.summary`): what an additive model of a sequence reads, and a recurrent layer needs much data to learn. With
    one answer for a sequence it adds products of pairs of summaries (`phased.estimator.pairs`). With an answer at each step the
    summaries up to the step are encoded, too.

    Args:
        numbers: for each variable measured over time whether it is a number; else it is the indicator of a text's level.
        static: inputs of static variables; the layer reads them at every step, and the linear layer too.
        units: units of each layer.
        outputs: classes, or 1 to predict a number.
        every_step: one answer at each step, instead of one after the last.
        part: what gives the answer.
        cell: one of CELLS.
        dropout: probability that a unit is zeroed in training before the next layer reads it.
        gate: settings of a phased layer's gates.
    """

    def __init__(
        self,
        numbers: Sequence[bool],
        static: int,
        units: int,
        outputs: int,
        every_step: bool = False,
        part: Part = "network",
        cell: str = "phased_gru",
        dropout: float = 0.0,
        **gate: Any,
    ) -> None:
        super().__init__()
        self.sizes = Sizes(units, len(numbers), sum(numbers), static)
        self.every_step, self.outputs = every_step, outputs
        pieces = PIECES_OF_STEPS if every_step else PIECES
        self.pieces = Pieces(columns(self.sizes.features, len(numbers), static), pieces)
        owner = self.owners(np.flatnonzero(numbers))
        # For training alone, and no part of a saved model.
        self.owner, self.numbers = torch.from_numpy(owner), tuple(numbers)
        self.lost = torch.zeros(len(numbers) + 1, dtype=REAL)  # `measure` sets it
        self.encoder = dense(len(owner), units, dropout)
        phased = {"phased_lstm": PhasedLSTM, "phased_gru": PhasedGRU}.get(cell)
        self.rnn: PhasedRNN | Plain = (
            phased(units, units, learn_ratio_on=True, dtype=REAL, **gate) if phased is not None else Plain(cell, units, units)
        )
        self.dropout = nn.Dropout(dropout)
        self.hidden = dense((4 if every_step else 3) * units, units, dropout)
        self.head = nn.Linear(units + self.pieces.start.numel(), outputs, dtype=REAL)
        nn.init.zeros_(self.head.weight[:, units:].detach())
        paired = self.sizes.paired
        self.pairs = None if every_step or not 0 < len(paired) <= MOST_PAIRED else Pairs(len(paired), pieces, outputs)
        self.decay = 0.0  # of the pieces' weights; `measure` sets it
        self.shares: Shares | None = None
        self.linear: nn.Linear | None = None
        self.answer_by(part)
        self.begun = torch.zeros_like(self.head.weight[:, units:])  # these weights before the training

    def answer_by(self, part: Part) -> None:
        """Let a part of the model give the answers. The layers of the convolutions are made where it needs them."""
        self.mix = MIX[part]
        if self.mix and self.shares is None:
            self.shares = Shares(self.numbers)
            with torch.random.fork_rng(devices=[]):  # the weights are not drawn: a ridge gives them
                self.linear = nn.Linear(self.shares.features + self.pieces.start.numel(), self.outputs, dtype=REAL)
        elif not self.mix:
            self.shares = self.linear = None

    def owners(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """The variable of each input of the encoder, or their number for the other inputs."""
        _, variables, _, static = self.sizes
        each, others = np.arange(variables), np.full(2, variables)
        step, fixed = np.concatenate([*[each] * 3, others]), np.full(static, variables)
        relative = np.tile(own, 4)
        if self.every_step:
            return np.concatenate([step, step, *[each] * 4, fixed, relative])
        return np.concatenate([step, relative, fixed])

    def forward(self, batch: Batch) -> Tensor:
        """(B, outputs), or (T, B, outputs) at every step; without the last dimension to predict a number."""
        summaries = self.summaries(batch)
        pieces = self.pieces(summaries)
        y = self.recurrent(batch, summaries, pieces) if self.mix < 1 else None
        if self.linear is not None:
            of_shares = self.linear(torch.cat([batch.streams[SHARES].x[0], pieces], -1))
            y = of_shares if y is None else torch.lerp(y, of_shares, self.mix)
        assert y is not None
        return y.squeeze(-1) if self.outputs == 1 else y

    def recurrent(self, batch: Batch, summaries: Tensor, pieces: Tensor) -> Tensor:
        """The outputs of the recurrent network, (..., outputs)."""
        x, time, lengths = batch.streams[STEPS]
        given = self.without_some(self.given(x, pieces))
        if self.every_step:
            pieces = given[..., : pieces.shape[-1]] * SPREAD
        encoded = self.encoder(given)
        h, _ = self.rnn(encoded, time, lengths=lengths)
        states = (*pool_every_step(h), encoded) if self.every_step else pool_states(h, lengths)
        y = two_products(self.hidden(self.dropout(torch.cat(states, -1))), pieces, self.head)
        if self.pairs is not None:
            y = y + self.pairs(self.paired(summaries))
        return y

    def given(self, x: Tensor, pieces: Tensor) -> Tensor:
        """The inputs of the encoder: those of the step; with an answer at each step the summaries and the relative inputs."""
        if not self.every_step:
            return x
        _, _, numbers, _ = self.sizes
        relative = x[..., self.sizes.features : self.sizes.features + 4 * numbers]
        return torch.cat([pieces / SPREAD, relative], -1)

    def without_some(self, given: Tensor) -> Tensor:
        """In training, the inputs without some variables in each sequence: often without those that are rarely measured."""
        if not self.training:
            return given
        kept = torch.rand(given.shape[1], len(self.lost), dtype=REAL, device=given.device) >= self.lost.to(given.device)
        return given * kept[:, self.owner]

    def summaries(self, batch: Batch) -> Tensor:
        """Summaries of the inputs, (B, columns) or (T, B, columns)."""
        if SUMMARY in batch.streams:
            return batch.streams[SUMMARY].x[0]
        (x, _, lengths), static = batch.streams[STEPS], batch.streams[STATIC].x[0]
        return summaries(x[..., : self.sizes.features], static, lengths, self.sizes.variables, self.every_step)

    def paired(self, summaries: Tensor) -> Tensor:
        """The summaries whose pairs are multiplied: mean values of the variables, and static inputs."""
        _, variables, _, static = self.sizes
        features = self.sizes.features
        means, end = summaries[..., features : features + variables], summaries.shape[-1]
        return torch.cat([means, summaries[..., end - static :]], -1)

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch]) -> None:
        """Set pieces, penalty and the probabilities of leaving out from the training sequences."""
        found, measured, steps = [], torch.zeros(self.sizes.variables, dtype=REAL), 0
        for batch in batches:
            x, _, lengths = batch.streams[STEPS]
            made, real = self.summaries(batch), valid_steps(len(x), lengths)
            found.append(made[real] if self.every_step else made)
            measured += x[..., self.sizes.variables : 2 * self.sizes.variables][real].sum(0).cpu()
            steps += int(real.sum())
        rows = torch.cat(found)
        self.pieces.measure(rows)
        self.lost[:-1] = LOST * torch.tensor(self.numbers) * (1 - measured / max(1, steps))
        self.decay = self.pieces.used * (SPREAD / PRIOR) ** 2 / max(1, len(rows))
        if self.pairs is not None:
            self.pairs.measure(self.pieces, torch.tensor(self.sizes.paired, device=rows.device), self.paired(rows))

    @torch.no_grad()
    def follow(self, variable: int, factor: float, added: float) -> None:
        """Begin with the answer `factor * x + added` at each step, where x is the last value of a variable, scaled."""
        slope, scale = float(self.pieces.slope[0, variable]), float(self.pieces.factor[0, variable])
        if slope and scale:
            weight = factor / (slope * scale)
            self.begun[0, variable] = self.head.weight[0, self.sizes.units + variable] = weight
            self.head.bias[0] += added + factor * float(self.pieces.start[0, variable] + self.pieces.center[0, variable] / slope)

    def penalty(self) -> Tensor | None:
        """`phased.openness_cost` of the layer; None for another layer."""
        return openness_cost(self.rnn) if isinstance(self.rnn, PhasedRNN) else None

    def prior(self) -> Tensor:
        """Penalty of the weights of pieces, each of which has, before any sequence is seen, an equal share of the spread `PRIOR`.

        A weight is compared with what it was before the training.

        So it is stronger with more pieces, and weaker with more sequences.
        """
        weight = self.head.weight[:, self.sizes.units :]
        of_pieces = self.decay * (weight - self.begun.to(weight.device)).square().sum()
        return of_pieces if self.pairs is None else of_pieces + self.pairs.penalty()

    def extra_repr(self) -> str:
        """The settings that no submodule prints."""
        return f"every_step={self.every_step}, outputs={self.outputs}"


class Sizes(NamedTuple):
    """Units of a layer, variables, how many of them are numbers, and inputs of static variables."""

    units: int
    variables: int
    numbers: int
    static: int

    @property
    def features(self) -> int:
        """The inputs of a step that are summarised."""
        return shared(self.variables)

    @property
    def paired(self) -> list[int]:
        """The numbers of the summaries whose pairs are multiplied."""
        end = columns(self.features, self.variables, self.static)
        return [*range(self.features, self.features + self.variables), *range(end - self.static, end)]


def dense(read: int, units: int, dropout: float) -> nn.Sequential:
    """A dense layer of ReLUs."""
    return nn.Sequential(nn.Linear(read, units, dtype=REAL), nn.ReLU(), nn.Dropout(dropout))


def two_products(states: Tensor, pieces: Tensor, head: nn.Linear) -> Tensor:
    """The head's outputs for rows of states and pieces.

    Pieces need no gradient: a product of their own saves one of 30 times as many numbers as the states are.
    """
    of_states, of_pieces = head.weight.tensor_split([states.shape[-1]], -1)
    return linear(states, of_states, head.bias) + linear(pieces, of_pieces)
