"""What the online sequences of a model share: weights, scales, and the messages of errors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased import check
from phased.estimator import checks
from phased.estimator.checks import Columns
from phased.estimator.network import Network
from phased.estimator.pairs import Pairs
from phased.estimator.ragged import EXACT
from phased.estimator.recent import RATE
from phased.estimator.scaling import LARGEST, Scaling
from phased.estimator.settings import EMPTY, OTHER, Settings, indicator
from phased.estimator.stepping import Steps
from phased.fields import encode
from phased.layer import PhasedRNN
from phased.ops.native import core
from phased.parameters import tensors

NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64, np.ma.MaskedArray)
"""Types that float() takes, or that need a message, and that are no measurement."""


class Compiled(NamedTuple):
    """A trained network in the compiled core, and what makes a sequence from the addresses of its memory."""

    model: Any
    sequence: Any


class Quadratic(NamedTuple):
    """The products of pairs of summaries: which ones, centre and factor of their ranks, and weights (outputs, size, size)."""

    chosen: NDArray[np.int64]
    center: NDArray[np.float32]
    factor: NDArray[np.float32]
    weight: NDArray[np.float32]

    @staticmethod
    def of(pairs: Pairs, chosen: list[int]) -> Quadratic:
        """Of a trained network; of two classes the difference decides."""
        center, factor, weight = (value.detach().cpu().numpy() for value in (pairs.center, pairs.factor, pairs.weight))
        return Quadratic(np.array(chosen), center, factor, weight[1:] - weight[:1] if len(weight) == 2 else weight)


class Shared:
    """A trained network as online sequences use it.

    Args:
        network: the network, with a phased layer.
        scaling: of its inputs.
        columns: its names and unit.
        target: centre and spread of a regression's target; None for classes.
        settings: of the table of the training.
    """

    def __init__(
        self, network: Network, scaling: Scaling, columns: Columns, target: tuple[float, float] | None, settings: Settings
    ) -> None:
        if not isinstance(network.rnn, PhasedRNN):
            raise ValueError("online sequences need a phased layer, got a plain one. Fit with cell='phased_lstm'.")
        if network.head.weight.dtype != torch.float32:
            raise ValueError(f"online sequences need a float32 network, got {network.head.weight.dtype}. Call network_.float().")
        self.steps = Steps(network.rnn)
        values = scaling.values
        scales = np.stack([values.center, values.factor, values.low, values.high], 1).tolist()
        self.columns: dict[str, tuple[int, list[float], tuple[float, ...]]] = {
            name: (number, scale, settings.marks(name))
            for number, (name, scale) in enumerate(zip(columns.variables, scales, strict=True))
        }
        self.settings = settings
        self.texts = {
            name: {level: self.columns[indicator(name, level)][0] for level in levels}
            for name, levels in settings.levels.items()
            if indicator(name, levels[0]) in self.columns
        }
        self.variables, self.statics, self.unit = len(columns.variables), columns.statics, columns.unit
        self.gap, self.span, self.reach = scaling.gap, scaling.span_in_gaps, scaling.reach
        self.scaling, self.target = scaling, target
        weight, bias = (value.detach().cpu().double().numpy() for value in (network.head.weight, network.head.bias))
        if len(weight) == 2:  # of two classes the difference decides
            weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
        sizes, pieces = network.sizes, network.pieces
        center, factor = (value.cpu().double().numpy().ravel() for value in (pieces.center, pieces.factor))
        self.start, self.slope = (value.cpu().numpy() for value in (pieces.start, pieces.slope))
        own, self.pieces = weight[:, : sizes.states], (weight[:, sizes.states :] * factor).astype(np.float32)
        self.bias = bias - weight[:, sizes.states :] @ (center * factor)
        self.pairs = None if network.pairs is None else Quadratic.of(network.pairs, sizes.paired)
        last, mean, highest = np.split(own, 3, 1)
        # The mean of a product is the product of the mean: the lower rows are applied at every step and summed up.
        rows = [np.concatenate([last, highest], 1), np.concatenate([mean, np.zeros_like(mean)], 1)]
        self.weight = np.concatenate(rows).astype(np.float32)
        self.sizes, self.outputs, self.classes = sizes, len(weight), network.outputs
        self.digest = digest(network, scaling, columns)
        self.compiled = None if self.steps.core is None else self._compiled(self.steps.core)

    def _compiled(self, layer: Any) -> Compiled:
        """The same in the compiled core, which copies what it is given."""
        pieces, columns = self.start.shape
        none = np.zeros(0, np.float32)
        pairs = self.pairs or Quadratic(np.zeros(0, np.int64), none, none, none)
        sizes = [self.variables, self.sizes.features, columns, pieces, self.sizes.units, self.outputs, len(pairs.chosen)]
        parts = [np.ascontiguousarray(part) for part in (self.start, self.slope, self.pieces, self.weight, self.bias, *pairs)]
        model = core.OnlineModel(layer, sizes, self.span, RATE, *(part.ctypes.data for part in parts))
        return Compiled(model, core.OnlineSequence)

    def read_summaries(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """What the linear layer makes of the pieces of summaries, its bias, and the products of pairs, for each output."""
        cut = np.clip((columns - self.start) * self.slope, 0.0, 1.0)
        read: NDArray[np.float64] = self.pieces.dot(cut.ravel()) + self.bias
        if self.pairs is not None:
            ranks = (cut[:, self.pairs.chosen].sum(0) - self.pairs.center) * self.pairs.factor
            read = read + self.pairs.weight.dot(ranks).dot(ranks)
        return read

    def answer(self, z: list[float]) -> Any:
        """The probability of the second of two classes, the probabilities of more, or the number of a regression."""
        one = z[0] if len(z) == 1 else sum(z)
        if not -math.inf < one < math.inf:
            raise checks.not_finite(one, "for this event")
        if self.classes > 2:
            powers = np.exp(np.array(z) - max(z))
            return powers / powers.sum()
        if self.target is not None:
            center, spread = self.target
            return one * spread + center
        return 1.0 / (1.0 + math.exp(-one)) if one > -700.0 else 0.0

    def static_inputs(self, static: Mapping[str, Any] | None) -> NDArray[np.float32]:
        """The inputs of static variables, by name; those not given are unknown."""
        row = np.full((1, len(self.statics)), np.nan)
        place = {name: number for number, name in enumerate(self.statics)}
        for name, value in by_name("static", {} if static is None else static).items():
            if name in self.settings.levels and name not in self.texts:
                levels, own = self.settings.levels[name], self.level(name, value)
                row[0, [place[indicator(name, level)] for level in levels]] = [level == own for level in levels]
                continue
            if name not in place:
                raise ValueError(self.unknown("static", name, self.statics))
            number = self.number(name, value)
            if number in self.settings.marks(name):
                continue
            if not abs(number) <= LARGEST:
                raise checks.beyond(name, number, "for this sequence")
            row[0, place[name]] = number
        inputs: NDArray[np.float32] = self.scaling.static_inputs(row)[0]
        return inputs

    def level(self, name: str, value: Any) -> str:
        """The level of the value of a text variable."""
        levels = self.settings.levels[name]
        if not isinstance(value, str) or value.strip().lower() in EMPTY:
            raise TypeError(f"{name} must be text, such as {levels[0]!r}, got {value!r}. Leave out what is not known.")
        return value.strip() if value.strip() in levels else OTHER

    def unknown(self, kind: str, name: Any, known: Iterable[str]) -> str:
        """The message for a name that the model does not have."""
        names = ", ".join(map(repr, self.settings.in_table(known))) or "none"
        return f"{kind} must be known to the model, {names}, got {name!r}."

    def wrong_time(self, time: float, last: float | None) -> ValueError:
        """The error about a time that is not finite, too large, or before the last."""
        if last is None or not abs(time) <= EXACT:
            return checks.beyond("time", time, "for this event")
        unit = f" {self.unit}" if self.unit else ""
        return ValueError(
            f"time must not be before that of the last event, {last:g}{unit}, got {time:g}{unit}. Sort the events, "
            f"or begin a new sequence with model.online()."
        )

    def time(self, value: Any) -> float:
        """A time of any type as a float; a TypeError for dates and others."""
        unit = f" of {self.unit}" if self.unit else ""
        cure, refused = "For dates, pass the time since the first event.", (*NO_NUMBERS, bool, np.bool_)
        return self.number("time", value, unit, cure, refused)

    @staticmethod
    def number(
        name: str, value: Any, unit: str = "", cure: str = "Convert it with float().", refused: tuple[Any, ...] = NO_NUMBERS
    ) -> float:
        """A number of any type as a float, infinite if it is too large for one; a TypeError for text, dates and others."""
        try:
            if isinstance(value, refused) or getattr(value, "ndim", False):
                raise TypeError
            return check.as_float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be a number{unit}, got {check.kind(value)}. {cure}") from error


def by_name(what: str, given: Any) -> Mapping[str, Any]:
    """A mapping from names; a TypeError for anything else."""
    if not isinstance(given, Mapping):
        raise TypeError(f'{what} must be a dict of names and numbers, such as {{"HR": 73}}, got {check.kind(given)}.')
    return given


def digest(network: Network, scaling: Scaling, columns: Columns) -> bytes:
    """Identifies a model: SHA-256 of its weights, scales and names."""
    found = hashlib.sha256(repr((encode(scaling), columns)).encode())
    for name, value in sorted(tensors(network), key=itemgetter(0)):
        found.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return found.digest()
