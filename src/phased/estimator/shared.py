"""What the online sequences of a model share: weights, scales, and the messages of errors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased import check
from phased.estimator.checks import Columns
from phased.estimator.network import Network
from phased.estimator.pairs import Pairs
from phased.estimator.recent import RATE
from phased.estimator.scaling import Scaling
from phased.estimator.settings import Settings
from phased.estimator.stepping import Steps
from phased.layer import PhasedRNN
from phased.learn.best import tensors
from phased.ops.core import core


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
        self.variables, self.statics, self.unit = len(columns.variables), columns.statics, columns.unit
        self.gap, self.span, self.scaling, self.target = scaling.gap, scaling.span_in_gaps, scaling, target
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
        if self.classes > 2:
            powers = np.exp(np.array(z) - max(z))
            return powers / powers.sum()
        one = z[0]
        if self.target is not None:
            center, spread = self.target
            return one * spread + center
        return 1.0 / (1.0 + math.exp(-one)) if one > -700.0 else 0.0

    def static_inputs(self, static: Mapping[str, float] | None) -> NDArray[np.float32]:
        """The inputs of static variables, by name; those not given are unknown."""
        row = np.full((1, len(self.statics)), np.nan)
        for name, value in by_name("static", {} if static is None else static).items():
            if name not in self.statics:
                raise ValueError(self.unknown("static", name, self.statics))
            number = self.number(name, value)
            if not math.isfinite(number):
                raise ValueError(f"{name} must be finite, got {number}. Leave out what is not known.")
            if number not in self.settings.marks(name):
                row[0, self.statics.index(name)] = number
        inputs: NDArray[np.float32] = self.scaling.static_inputs(row)[0]
        return inputs

    def unknown(self, kind: str, name: Any, known: Collection[str]) -> str:
        """The message for a name that the model does not have."""
        return f"{kind} must be known to the model, {', '.join(map(repr, known)) or 'none'}, got {name!r}."

    def wrong_time(self, time: float, last: float | None) -> str:
        """The message for a time that is not finite, or not after the last."""
        unit = f" {self.unit}" if self.unit else ""
        if not math.isfinite(time):
            return f"time must be finite, got {time}. Leave out events without a time."
        return (
            f"time must be after that of the last event, {last:g}{unit}, got {time:g}{unit}. Push all measurements of one time "
            f"together, and begin a new sequence with model.online()."
        )

    def time(self, value: Any) -> float:
        """A time of any type as a float; a TypeError for dates and others."""
        try:
            return self.number("time", value)
        except TypeError as error:
            unit = f" of {self.unit}" if self.unit else ""
            raise TypeError(
                f"time must be a number{unit}, got {check.kind(value)}. For dates, pass the time since the first event."
            ) from error

    @staticmethod
    def number(name: str, value: Any) -> float:
        """A number of any type as a float; a TypeError for text and others."""
        if isinstance(value, (str, bytes, bool)) or value is None:
            raise TypeError(f"{name} must be a number, got {check.kind(value)}. Convert it with float().")
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be a number, got {check.kind(value)}. Convert it with float().") from error


def by_name(what: str, given: Any) -> Mapping[str, Any]:
    """A mapping from names; a TypeError for anything else."""
    if not isinstance(given, Mapping):
        raise TypeError(f'{what} must be a dict of names and numbers, such as {{"HR": 73}}, got {check.kind(given)}.')
    return given


def digest(network: Network, scaling: Scaling, columns: Columns) -> bytes:
    """Identifies a model: SHA-256 of its weights, scales and names."""
    found = hashlib.sha256(repr((scaling.fields(), columns)).encode())
    for name, value in sorted(tensors(network), key=itemgetter(0)):
        found.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return found.digest()
