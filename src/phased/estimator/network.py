"""Network: a dense encoder, a recurrent layer over the steps of a sequence, and dense output layers."""

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
from phased.estimator.summary import PIECES, PIECES_OF_STEPS, REAL, ROWS, SPREAD, Pieces, columns, summaries
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.batch import Batch, Place
from phased.learn.model import Model
from phased.schedule import valid_steps

Cell = Literal["phased_lstm", "phased_gru", "lstm", "gru"]
CELLS: tuple[str, ...] = get_args(Cell)
STEPS, STATIC, SUMMARY, SHARES = "steps", "static", "summary", "shares"
"""Names of the streams of a batch: inputs of the steps, and one sample each with inputs of static variables, with summaries of
the inputs, and with shares (`phased.estimator.shares`). Summaries and shares are optional."""
Part = Literal["network", "convolutions", "both"]
"""Part of a model that gives the answer: the recurrent network, the random convolutions, or the mean of both."""
MIX: dict[Part, float] = {"network": 0.0, "convolutions": 1.0, "both": 0.5}
"""Weight of the convolutions in the answer of each part."""

LOST = 0.2
"""Probability of omitting a numeric variable from a training sequence, divided by the share of steps without its measurement."""
PRIOR = 1.4
"""Prior standard deviation of the sum over all pieces, in log odds or in units of the scaled target."""


class Dropout(nn.Dropout):
    """Dropout that draws its mask for the whole batch, of which `place` is the part to compute."""

    place: Place | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Zero units (..., B, units) in training."""
        if self.place is None or not self.training:
            return super().forward(x)
        whole = super().forward(x.new_ones(*x.shape[:-2], self.place.size, x.shape[-1]))
        return x * whole[..., self.place.own, :]


class Plain(nn.Module):
    """torch.nn.LSTM or GRU with the signature of a phased layer, for comparisons. The inputs already contain the time."""

    def __init__(self, cell: str, features: int, units: int) -> None:
        super().__init__()
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](features, units, dtype=REAL)
        self.hidden_size = units

    def forward(self, input: Tensor, time: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        """Return the output (T, B, H), which is undefined after the end of a sequence."""
        return self.rnn(input)[0], None


class Network(Model):
    """Network with one answer per sequence or per step. The answer at a step depends only on the steps so far.

    A dense layer encodes the inputs of a step for the recurrent layer. A second dense layer reads the last, mean and highest
    states of the recurrent layer, and a linear layer computes the outputs. The linear layer also reads summaries of the inputs,
    cut into pieces (`phased.estimator.summary`). The pieces form an additive model of the sequence, which a recurrent layer needs
    much data to learn. With one answer per sequence the network adds products of pairs of summaries (`phased.estimator.pairs`).
    With one answer per step the second dense layer also reads the encoded inputs.

    Args:
        numbers: True for each numeric variable measured over time, False for each indicator of a text level.
        static: number of inputs of static variables. The encoder and the linear layer read these inputs.
        units: units of each layer.
        outputs: classes, or 1 to predict a number.
        every_step: return one answer per step instead of one answer after the last step.
        part: part of the model that gives the answer.
        cell: one of CELLS.
        dropout: probability that a unit is zeroed in training before the next layer.
        gate: settings of a phased layer's gates.
    """

    divisible = True

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
        # A saved model does not contain these. `owner` and `lost` are for training only.
        self.owner, self.numbers = torch.from_numpy(owner), tuple(numbers)
        self.lost = torch.zeros(len(numbers) + 1, dtype=REAL)  # set by `measure`
        self.encoder = dense(len(owner), units, dropout)
        phased = {"phased_lstm": PhasedLSTM, "phased_gru": PhasedGRU}.get(cell)
        self.rnn: PhasedRNN | Plain = (
            phased(units, units, learn_ratio_on=True, dtype=REAL, **gate) if phased is not None else Plain(cell, units, units)
        )
        self.dropout = Dropout(dropout)
        self.hidden = dense((4 if every_step else 3) * units, units, dropout)
        self.head = nn.Linear(units + self.pieces.start.numel(), outputs, dtype=REAL)
        nn.init.zeros_(self.head.weight[:, units:].detach())
        paired = self.sizes.paired
        self.pairs = None if every_step or not 0 < len(paired) <= MOST_PAIRED else Pairs(len(paired), pieces, outputs)
        self.decay = 0.0  # penalty of the pieces' weights, set by `measure`
        self.shares: Shares | None = None
        self.linear: nn.Linear | None = None
        self.answer_by(part)
        self.begun = torch.zeros_like(self.head.weight[:, units:])  # these weights before the training

    def answer_by(self, part: Part) -> None:
        """Set the part of the model that gives the answers, and create or remove the layers of the convolutions."""
        self.mix = MIX[part]
        if self.mix and self.shares is None:
            self.shares = Shares(self.numbers)
            with torch.random.fork_rng(devices=[]):  # a ridge sets the weights, so no random number is used
                self.linear = nn.Linear(self.shares.features + self.pieces.start.numel(), self.outputs, dtype=REAL)
        elif not self.mix:
            self.shares = self.linear = None

    def owners(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the variable index of each input of the encoder. Other inputs have the number of variables as index."""
        _, variables, _, static = self.sizes
        each, others, fixed = np.arange(variables), np.full(2, variables), np.full(static, variables)
        return np.concatenate([*[each] * 3, others, *[own] * 4, fixed])

    def forward(self, batch: Batch) -> Tensor:
        """Return the outputs, (B, outputs) or (T, B, outputs) with one answer per step. A number has no last dimension."""
        summaries = self.summaries(batch)
        pieces = self.pieces(summaries)
        y = self.recurrent(batch, summaries, pieces) if self.mix < 1 else None
        if self.linear is not None:
            of_shares = self.linear(torch.cat([batch.streams[SHARES].x[0], pieces], -1))
            y = of_shares if y is None else torch.lerp(y, of_shares, self.mix)
        assert y is not None
        return y.squeeze(-1) if self.outputs == 1 else y

    def recurrent(self, batch: Batch, summaries: Tensor, pieces: Tensor) -> Tensor:
        """Return the outputs of the recurrent network, (..., outputs)."""
        x, time, lengths = batch.streams[STEPS]
        for module in self.modules():
            if isinstance(module, Dropout):
                module.place = batch.place
        encoded = self.encoder(self.without_some(x, batch.place or Place(0, 1, batch.size)))
        h, _ = self.rnn(encoded, time, lengths=lengths)
        states = (*pool_every_step(h), encoded) if self.every_step else pool_states(h, lengths)
        y = two_products(self.hidden(self.dropout(torch.cat(states, -1))), pieces, self.head)
        if self.pairs is not None:
            y = y + self.pairs(self.paired(summaries))
        return y

    def without_some(self, given: Tensor, place: Place) -> Tensor:
        """Zero the inputs of random variables per sequence, in training only. Rarely measured variables are zeroed more often."""
        if not self.training:
            return given
        kept = torch.rand(place.size, len(self.lost), dtype=REAL, device=given.device) >= self.lost.to(given.device)
        return given * kept[place.own, self.owner]

    def summaries(self, batch: Batch) -> Tensor:
        """Return summaries of the inputs, (B, columns) or (T, B, columns)."""
        if SUMMARY in batch.streams:
            return batch.streams[SUMMARY].x[0]
        (x, _, lengths), static = batch.streams[STEPS], batch.streams[STATIC].x[0]
        return summaries(x[..., : self.sizes.features], static, lengths, self.sizes.variables, self.every_step)

    def paired(self, summaries: Tensor) -> Tensor:
        """Return the summaries that are multiplied in pairs: mean values of the variables, and static inputs."""
        _, variables, _, static = self.sizes
        features = self.sizes.features
        means, end = summaries[..., features : features + variables], summaries.shape[-1]
        return torch.cat([means, summaries[..., end - static :]], -1)

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch], rows: int) -> None:
        """Set the pieces, the penalty and the probabilities of leaving out a variable, from the training sequences.

        Args:
            batches: the training sequences.
            rows: number of their summaries, one per sequence or per step.
        """
        found, measured, steps, every = [], torch.zeros(self.sizes.variables, dtype=REAL), 0, 1 + rows // ROWS
        for batch in batches:
            x, _, lengths = batch.streams[STEPS]
            made, real = self.summaries(batch), valid_steps(len(x), lengths)
            found.append(made[real][-steps % every :: every] if self.every_step else made)
            measured += x[..., self.sizes.variables : 2 * self.sizes.variables][real].sum(0)
            steps += int(real.sum())
        made = torch.cat(found)
        self.pieces.measure(made if self.every_step else made[::every])
        self.lost[:-1] = LOST * torch.tensor(self.numbers) * (1 - measured / max(1, steps))
        self.decay = self.pieces.used * (SPREAD / PRIOR) ** 2 / max(1, rows)
        if self.pairs is not None:
            self.pairs.measure(self.pieces, torch.tensor(self.sizes.paired), self.paired(made))

    @torch.no_grad()
    def follow(self, variable: int, factor: float, added: float) -> None:
        """Initialise the weights so that each answer is `factor * x + added`, with x the last scaled value of a variable."""
        slope, scale, center = (of[:, variable] for of in (self.pieces.slope, self.pieces.factor, self.pieces.center))
        used = scale > 0
        if used.any():  # within the quantiles a summary is the first of them plus all pieces, each by its width
            of_pieces = torch.zeros_like(self.begun[0]).view(self.pieces.start.shape)
            of_pieces[used, variable] = factor / (slope * scale)[used]
            self.begun[0] = self.head.weight[0, self.sizes.units :] = of_pieces.flatten()
            self.head.bias[0] += added + factor * float(self.pieces.start[0, variable] + (center / slope)[used].sum())

    def penalty(self) -> Tensor | None:
        """Return `phased.openness_cost` of the layer, or None if the layer is not phased."""
        return openness_cost(self.rnn) if isinstance(self.rnn, PhasedRNN) else None

    def prior(self) -> Tensor:
        """Return the penalty of the weights of pieces and of pairs.

        The prior gives each piece an equal share of the spread `PRIOR`, and is centred on the weights before the training. So the
        penalty is stronger with more pieces, and weaker with more training sequences.
        """
        weight = self.head.weight[:, self.sizes.units :]
        of_pieces = self.decay * (weight - self.begun.to(weight.device)).square().sum()
        return of_pieces if self.pairs is None else of_pieces + self.pairs.penalty()

    def extra_repr(self) -> str:
        """Return the settings that no submodule prints."""
        return f"every_step={self.every_step}, outputs={self.outputs}"


class Sizes(NamedTuple):
    """Units per layer, and numbers of variables, numeric variables and inputs of static variables."""

    units: int
    variables: int
    numbers: int
    static: int

    @property
    def features(self) -> int:
        """Number of inputs per step that are summarised."""
        return shared(self.variables)

    @property
    def paired(self) -> list[int]:
        """Columns of the summaries that are multiplied in pairs."""
        end = columns(self.features, self.variables, self.static)
        return [*range(self.features, self.features + self.variables), *range(end - self.static, end)]


def dense(read: int, units: int, dropout: float) -> nn.Sequential:
    """Return a dense layer of ReLUs with dropout."""
    return nn.Sequential(nn.Linear(read, units, dtype=REAL), nn.ReLU(), Dropout(dropout))


def two_products(states: Tensor, pieces: Tensor, head: nn.Linear) -> Tensor:
    """Return the head's outputs for rows of states and pieces.

    The two products are separate because pieces need no gradient. The gradient would be 30 times the size of the states.
    """
    of_states, of_pieces = head.weight.tensor_split([states.shape[-1]], -1)
    return linear(states, of_states, head.bias) + linear(pieces, of_pieces)
