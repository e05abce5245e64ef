"""OnlineModel: a trained network as online sequences share it, and the next step of a sequence, in numpy and in the core."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from phased import check
from phased.clock import EXACT_FLOAT64
from phased.estimator import checks
from phased.estimator.checks import Columns
from phased.estimator.inputs import Inputs
from phased.estimator.network import Network
from phased.estimator.pairs import Pairs
from phased.estimator.recent import RATE
from phased.estimator.scaling import LARGEST, Array, Scaling
from phased.estimator.settings import EMPTY, OTHER, Settings, indicator
from phased.estimator.targets import Target
from phased.fields import encode
from phased.layer import PhasedRNN
from phased.ops.native import core
from phased.parameters import tensors
from phased.stream import MODEL, Stack

NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64, np.ma.MaskedArray)
"""Types that float() takes, or that need a message, and that are no measurement."""


@dataclass
class Now:
    """The state of an online sequence.

    Args:
        memory: what is known of the sequence, the bytes of one `OnlineModel.parts`.
        layer: the state of the layer; its time is that of the last step since the first, in median gaps.
    """

    memory: NDArray[np.uint8]
    layer: Any

    def copy(self) -> Now:
        """Another state with the same values."""
        return Now(self.memory.copy(), self.layer.copy())


class OnlineModel:
    """A trained network as online sequences share it: weights, scales, and the messages of errors.

    Args:
        network: the network, with a phased layer.
        scaling: of its inputs.
        columns: its names and unit.
        target: what makes answers from its outputs.
        settings: of the table of the training.

    Attributes:
        parts: numpy type of the state of a sequence, without the state of the layer. "clock": times of the first and of the last
            step, and the number of steps. "since", "count", "mean", "square": see `phased.estimator.inputs`. "totals": summarised
            inputs, summed over all steps. "sums": states, summed over all steps. "x": inputs of the last step, then static
            inputs. "read": states of the layer, then the highest states so far. "recent": last known value of each variable, the
            recent distances above and below this value, the sum of absolute changes, and the number of measurements,
            (5, variables). "first": first values of the variables. "counts", "ring": see `phased.estimator.shares`.
        core: the same model in the compiled core, or None.
    """

    def __init__(self, network: Network, scaling: Scaling, columns: Columns, target: Target, settings: Settings) -> None:
        if not isinstance(network.rnn, PhasedRNN):
            raise ValueError("online sequences need a phased layer, got a plain one. Fit with cell='phased_lstm'.")
        if network.head.weight.dtype != torch.float32:
            raise ValueError(f"online sequences need a float32 network, got {network.head.weight.dtype}. Call network_.float().")
        self._given = deepcopy(network).cpu(), scaling, columns, target, settings
        self.layer = Stack.of(network.rnn)
        values = scaling.values
        scales = np.stack([values.center, values.factor, values.low, values.high, scaling.slopes], 1).tolist()
        self.columns: dict[str, tuple[Any, ...]] = {  # number, centre, factor, low, high, slope, marks
            name: (number, *scale, settings.marks(name))
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
        weight, bias = outputs_of(network.head)
        sizes, pieces, units = network.sizes, network.pieces, network.sizes.units
        center, factor = (value.cpu().double().numpy().ravel() for value in (pieces.center, pieces.factor))
        self.knots, self.slope = (value.cpu().numpy() for value in (pieces.start, pieces.slope))
        mix, of_shares, of_linear = network.mix, np.zeros((len(weight), 0)), np.zeros(len(weight))
        of_pieces = np.zeros((len(weight), len(factor)))
        if network.linear is not None:
            read, added = outputs_of(network.linear)
            of_shares, of_pieces, of_linear = (mix * part for part in (*np.split(read, [len(read.T) - len(factor)], 1), added))
        weight, bias = (1 - mix) * weight, (1 - mix) * bias + of_linear
        on_pieces = weight[:, units:] + of_pieces
        self.head, self.pieces, self.on_shares = single(weight[:, :units]), single(on_pieces * factor), single(of_shares)
        self.bias = bias - on_pieces @ (center * factor)
        self.recurrent, self.shares = mix < 1, network.shares
        self.encoder, self.hidden = weights_of(network.encoder), weights_of(network.hidden)
        pairs = Pairs(0, 0, network.outputs) if network.pairs is None else network.pairs
        self.chosen = np.array([] if network.pairs is None else sizes.paired, np.int64)
        ranks = pairs.center, pairs.factor, pairs.weight
        self.center, self.factor, products = (value.detach().cpu().numpy() for value in ranks)
        self.products = ((1 - mix) * (products[1:] - products[:1] if len(products) == 2 else products)).astype(np.float32)
        self.sizes, self.outputs, self.every_step = sizes, len(weight), network.every_step
        self.inputs = Inputs(scaling.numbers, self.span)
        self.digest = digest(network, scaling, columns)
        self.identity = self.digest[:MODEL]
        width, variables = self.inputs.width + sizes.static, sizes.variables
        doubles = {"clock": 3, **self.inputs.kept(), "totals": sizes.features, "sums": units}
        singles = {"x": width, "read": 2 * units, "recent": (5, variables), "first": variables}
        kinds = (("f8", doubles), ("f4", singles))
        parts = [(name, kind, size) for kind, sizes_of in kinds for name, size in sizes_of.items()]
        counted = [] if self.shares is None else self.shares.parts()
        self.parts = np.dtype([*parts, *((name, kind, shape) for name, kind, shape in reversed(counted))])  # wide numbers first
        self.core = None if self.layer.native is None else self._compiled()

    def __reduce__(self) -> tuple[Any, ...]:
        return OnlineModel, self._given

    def start(self, static: NDArray[np.float32] | None = None) -> Now:
        """The state before the first step, with inputs of static variables."""
        memory = np.zeros(self.parts.itemsize, np.uint8)
        parts = memory.view(self.parts)[0]
        parts["read"][self.sizes.units :] = -np.inf
        if static is not None:
            parts["x"][self.inputs.width :] = static
        return Now(memory, self.layer.start())

    def part(self, now: Now, name: str) -> NDArray[Any]:
        """One of `parts` of a state."""
        found: NDArray[Any] = now.memory.view(self.parts)[0][name]
        return found

    def pack(self, now: Now) -> bytes:
        """A state as bytes."""
        return now.memory.tobytes() + self.layer.pack(now.layer)

    def unpack(self, data: bytes) -> Now:
        """The state from what `pack` returned."""
        end = self.parts.itemsize
        return Now(np.frombuffer(data[:end], np.uint8).copy(), self.layer.unpack(data[end:]))

    def _compiled(self) -> Any:
        """Return the same model in the compiled core, which copies all arrays."""
        s, pieces = self.sizes, len(self.knots)
        sizes = [s.variables, s.numbers, s.static, pieces, s.units, self.outputs, len(self.chosen), int(self.every_step)]
        read = self.knots, self.slope, self.pieces, *self.encoder, *self.hidden, self.head, self.bias
        more = self.chosen, self.center, self.factor, self.products, self.on_shares
        arrays = [np.ascontiguousarray(array) for array in (*read, *more)]
        names = [*(self.parts.names or ()), *(["clock"] * 2 if self.shares is None else [])]  # unused offsets
        places = [*(self.parts.fields[name][1] for name in names), self.parts.itemsize]  # type: ignore[index]
        times = [self.gap, self.reach, EXACT_FLOAT64, RATE]
        addresses = [array.ctypes.data for array in arrays]
        shares = None if self.shares is None else self.shares.compiled()
        given = self.layer.native, self.inputs.core, sizes, places, times, addresses, shares, self.recurrent
        return core.OnlineModel(*given)

    def take(self, now: Now, time: float, found: list[tuple[int, float]]) -> list[float] | None:
        """Take an event into a state, and return the outputs of the linear layer.

        Args:
            now: the state. It stays as it was if an output is not finite.
            time: the time of the event.
            found: index and scaled value of each variable that is measured now.

        Returns:
            The outputs, or None if the time is before the last event or too late. In this case the state does not change.
        """
        memory, layer = now.memory.copy(), now.layer.copy()
        parts, features = memory.view(self.parts)[0], self.sizes.features
        start, last, steps = parts["clock"].tolist()
        moment = (time - start) / self.gap if steps else 0.0
        gap = moment - (last - start) / self.gap if steps else 0.0
        if not abs(time) <= EXACT_FLOAT64 or (steps and time < last) or moment > self.reach:
            return None
        steps += 1
        parts["clock"] = start if steps > 1 else time, time, steps
        x, first = parts["x"], parts["first"]
        measured = np.full(self.variables, np.nan, np.float32)
        for number, scaled in found:
            measured[number] = scaled
            if not parts["count"][number]:
                first[number] = scaled
        before = x[features - 1]
        kept = {name: parts[name][None] for name in self.inputs.kept()}
        self.inputs.step(x[None, : self.inputs.width], kept, np.array([moment]), np.array([gap]), measured[None])
        columns = self._summaries(parts, np.exp(np.float32(-RATE) * (x[features - 1] - before)), steps)
        outputs = self._read_summaries(columns)
        if self.shares is not None:
            self.shares.step(x, parts["ring"], parts["counts"], int(steps) - 1)
            outputs = outputs + self.on_shares.dot(parts["counts"].ravel().astype(np.float32)).astype(np.float64) / steps
        if self.recurrent:
            outputs = outputs + self._read_network(parts, layer, moment, steps)
        if np.isfinite(outputs.sum()):
            now.memory, now.layer = memory, layer
        answers: list[float] = outputs.tolist()
        return answers

    def _read_network(self, parts: Any, layer: Any, moment: float, steps: float) -> NDArray[np.float64]:
        """Update the recurrent layer by the inputs of a step, and return the outputs computed from its states."""
        read, units = parts["read"], self.sizes.units
        encoded = rectified(self.encoder, parts["x"])
        at = torch.tensor([moment], dtype=torch.float64)
        read[:units] = self.layer.run(layer, torch.from_numpy(encoded).unsqueeze(0), at)[0]
        np.maximum(read[units:], read[:units], out=read[units:])
        parts["sums"] += read[:units]
        mean = (parts["sums"] / steps).astype(np.float32)
        states = [read[:units], mean, read[units:], *([encoded] if self.every_step else [])]
        found: NDArray[np.float64] = self.head.dot(rectified(self.hidden, np.concatenate(states))).astype(np.float64)
        return found

    def _summaries(self, parts: Any, kept: Any, steps: float) -> NDArray[np.float32]:
        """Update the running summaries by the inputs of a step, and return them as `phased.estimator.summary` does."""
        x, variables, features = parts["x"], self.variables, self.sizes.features
        values, new = x[:variables], x[variables : 2 * variables]
        parts["totals"] += x[:features]
        value, above, below, path, count = parts["recent"]
        moved = np.where(count > 0, values - value, np.float32(0))
        above[:] = np.maximum(above * kept - moved, 0)
        below[:] = np.maximum(below * kept + moved, 0)
        path += np.abs(moved)
        count += new
        value[:] = values
        mean = (parts["totals"] / steps).astype(np.float32)
        extremes = [values + above, values - below, path / np.maximum(count - 1, 1)]
        return np.concatenate([x[:features], mean, *extremes, values - parts["first"], x[self.inputs.width :]])

    def _cut(self, columns: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the pieces of summaries, (pieces, columns), from 0 to 1."""
        cut: NDArray[np.float32] = np.clip((columns - self.knots) * self.slope, 0.0, 1.0)
        return cut

    def _read_summaries(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the sum of bias, weighted pieces of summaries and products of pairs, for each output."""
        cut = self._cut(columns)
        ranks = (cut[:, self.chosen].sum(0) - self.center) * self.factor
        read: NDArray[np.float64] = self.pieces.dot(cut.ravel()) + self.bias + self.products.dot(ranks).dot(ranks)
        return read

    def answer(self, z: list[float]) -> Any:
        """What `Online.push` returns for outputs; a ValueError if they are not finite."""
        one = z[0] if len(z) == 1 else sum(z)
        if not -math.inf < one < math.inf:
            raise checks.not_finite(one, "for this event")
        return self.target.answer_one(z)

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

    def wrong_time(self, now: Now, time: float) -> ValueError:
        """The error about a time that is not finite, too large, before the last, or too long after the first."""
        start, last = self.part(now, "clock")[:2].tolist()
        if not abs(time) <= EXACT_FLOAT64:
            return checks.beyond("time", time, "for this event")
        if time >= last:
            return checks.too_late((time - start) / self.gap, self.scaling, "for this event")
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


def single(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return a contiguous array in float32."""
    return np.ascontiguousarray(values, np.float32)


def outputs_of(linear: nn.Linear) -> tuple[Array, Array]:
    """Return the weights and biases of an output layer. Two classes give their difference, which decides."""
    weight, bias = (value.detach().cpu().double().numpy() for value in (linear.weight, linear.bias))
    return (weight[1:] - weight[:1], bias[1:] - bias[:1]) if len(weight) == 2 else (weight, bias)


def weights_of(layer: nn.Sequential) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights and biases of a dense layer."""
    weight, bias = (parameter.detach().cpu().numpy() for parameter in layer[0].parameters())
    return single(weight), single(bias)


def rectified(weights: tuple[NDArray[np.float32], NDArray[np.float32]], given: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the outputs of a dense layer of ReLUs."""
    matrix, bias = weights
    found: NDArray[np.float32] = np.maximum(matrix.dot(given) + bias, np.float32(0))
    return found


def by_name(what: str, given: Any) -> Mapping[str, Any]:
    """A mapping from names; a TypeError for anything else."""
    if not isinstance(given, Mapping):
        raise TypeError(f'{what} must be a dict of names and numbers, such as {{"HR": 73}}, got {check.kind(given)}.')
    return given


def digest(network: Network, scaling: Scaling, columns: Columns) -> bytes:
    """Identifies a model: SHA-256 of its weights, scales and names. The text is part of every dump: it must not change."""
    names = f"Columns(variables={columns.variables!r}, statics={columns.statics!r}, unit={columns.unit!r})"
    found = hashlib.sha256(f"({encode(scaling)!r}, {names})".encode())
    for name, value in sorted(tensors(network), key=itemgetter(0)):
        found.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return found.digest()
