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
import safetensors.numpy
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError

from phased import check
from phased.clock import EXACT_FLOAT64
from phased.estimator import checks
from phased.estimator.checks import Columns
from phased.estimator.network import Network
from phased.estimator.pairs import Pairs
from phased.estimator.recent import RATE
from phased.estimator.scaling import LARGEST, Scaling
from phased.estimator.settings import EMPTY, OTHER, Settings, indicator
from phased.estimator.targets import Target
from phased.fields import encode
from phased.layer import PhasedRNN
from phased.ops.native import core
from phased.parameters import tensors
from phased.stream import MODEL, NOT_OF_MODEL, Stack

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
        parts: what is known of a sequence, as one numpy type. "clock": times of the first and of the last step, and the number
            of steps. "since": when each variable was last measured, or the first step
            was, in median gaps. "totals": inputs, summed over all steps. "sums": what the weights of mean states make of each
            step, summed over all steps. "x": inputs of the layer: values, masks and ages of the variables, the gap, the time,
            static inputs. "read": states of the layer and their highest values, which the linear layer reads. "recent": of each
            variable the last-known value, how far above and below it the variable has recently been, the sum of its absolute
            changes, and the number of its measurements, (5, variables). "first": first values of the variables. "known":
            variables that were measured, 0 or 1.
        core: the same in the compiled core, or None.
    """

    def __init__(self, network: Network, scaling: Scaling, columns: Columns, target: Target, settings: Settings) -> None:
        if not isinstance(network.rnn, PhasedRNN):
            raise ValueError("online sequences need a phased layer, got a plain one. Fit with cell='phased_lstm'.")
        if network.head.weight.dtype != torch.float32:
            raise ValueError(f"online sequences need a float32 network, got {network.head.weight.dtype}. Call network_.float().")
        self._given = deepcopy(network).cpu(), scaling, columns, target, settings
        self.layer = Stack.of(network.rnn)
        values = scaling.values
        scales = np.stack([values.center, values.factor, values.low, values.high], 1).tolist()
        self.columns: dict[str, tuple[Any, ...]] = {  # number, centre, factor, low, high, marks
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
        weight, bias = (value.detach().cpu().double().numpy() for value in (network.head.weight, network.head.bias))
        if len(weight) == 2:  # of two classes the difference decides
            weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
        sizes, pieces = network.sizes, network.pieces
        center, factor = (value.cpu().double().numpy().ravel() for value in (pieces.center, pieces.factor))
        self.knots, self.slope = (value.cpu().numpy() for value in (pieces.start, pieces.slope))
        own, self.pieces = weight[:, : sizes.states], (weight[:, sizes.states :] * factor).astype(np.float32)
        self.bias = bias - weight[:, sizes.states :] @ (center * factor)
        pairs = Pairs(0, 0, network.outputs) if network.pairs is None else network.pairs
        self.chosen = np.array([] if network.pairs is None else sizes.paired, np.int64)
        ranks = pairs.center, pairs.factor, pairs.weight
        self.center, self.factor, products = (value.detach().cpu().numpy() for value in ranks)
        self.products = products[1:] - products[:1] if len(products) == 2 else products
        last, mean, highest = np.split(own, 3, 1)
        # The mean of a product is the product of the mean: the lower rows are applied at every step and summed up.
        rows = [np.concatenate([last, highest], 1), np.concatenate([mean, np.zeros_like(mean)], 1)]
        self.weight = np.concatenate(rows).astype(np.float32)
        self.sizes, self.outputs = sizes, len(weight)
        self.digest = digest(network, scaling, columns)
        self.identity = self.digest[:MODEL]
        variables, features, units = sizes.variables, sizes.features, sizes.units
        doubles = [("clock", "f8", 3), ("since", "f8", variables), ("totals", "f8", features), ("sums", "f8", self.outputs)]
        singles = [("x", "f4", features + sizes.static), ("read", "f4", 2 * units), ("recent", "f4", (5, variables))]
        self.parts = np.dtype([*doubles, *singles, ("first", "f4", variables), ("known", "u1", variables)])
        self.core = None if self.layer.native is None else self._compiled()

    def __reduce__(self) -> tuple[Any, ...]:
        return OnlineModel, self._given

    def start(self, static: NDArray[np.float32] | None = None) -> Now:
        """The state before the first step, with inputs of static variables."""
        memory = np.zeros(self.parts.itemsize, np.uint8)
        parts = memory.view(self.parts)[0]
        parts["read"][self.sizes.units :] = -np.inf
        if static is not None:
            parts["x"][self.sizes.features :] = static
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

    def unpack_safetensors(self, data: bytes) -> Now:
        """The state from a dump without a digest, a safetensors file, as earlier code wrote it."""
        try:
            found = safetensors.numpy.load(data)
        except (SafetensorError, TypeError) as error:
            raise ValueError(f"state must be what dump() returned, got {check.kind(data)} that is cut off or damaged.") from error
        parts = np.zeros(1, self.parts)
        expected = {name: parts[name][0] for name in self.parts.names or ()}
        expected |= {"state": np.concatenate(self.layer.values(self.layer.start())), "columns": self.knots[0]}
        expected |= {"model": np.frombuffer(self.digest, np.uint8), "clock": np.zeros(4)}
        if found.keys() != expected.keys() or bytes(found["model"]) != self.digest:
            raise ValueError(NOT_OF_MODEL)
        for name, value in expected.items():
            if found[name].dtype != value.dtype or found[name].shape != value.shape:
                raise ValueError(f"state must have {name!r} of shape {value.shape}, got {found[name].shape}. It is damaged.")
        start, time, _, steps = found["clock"].tolist()
        begun = [value for name, value in found.items() if value.dtype.kind == "f" and (steps or name not in ("clock", "read"))]
        if not (0 <= steps < EXACT_FLOAT64 and (not steps or start <= time) and all(np.isfinite(value).all() for value in begun)):
            raise ValueError("state must have finite numbers, got NaN, infinity or times out of order. It is damaged.")
        for name in self.parts.names or ():
            parts[name] = found[name] if name != "clock" else (start, time, steps)
        layer = self.layer.state(
            torch.from_numpy(found["state"]).unsqueeze(1).unbind(0), (time - start) / self.gap if steps else -math.inf
        )
        return Now(parts.view(np.uint8), layer)

    def _compiled(self) -> Any:
        """The same in the compiled core, which copies what it is given."""
        s, pieces = self.sizes, len(self.knots)
        sizes = [s.variables, s.features, s.static, pieces, s.units, self.outputs, len(self.chosen)]
        read = self.knots, self.slope, self.pieces, self.weight, self.bias
        arrays = [np.ascontiguousarray(array) for array in (*read, self.chosen, self.center, self.factor, self.products)]
        places = [*(self.parts.fields[name][1] for name in self.parts.names or ()), self.parts.itemsize]  # type: ignore[index]
        times = [self.gap, self.span, self.reach, EXACT_FLOAT64, RATE]
        return core.OnlineModel(self.layer.native, sizes, places, times, [array.ctypes.data for array in arrays])

    def take(self, now: Now, time: float, found: list[tuple[int, float]]) -> list[float] | None:
        """Take an event into a state, and return the outputs of the linear layer.

        Args:
            now: the state. It stays as it was if an output is not finite.
            time: the time of the event.
            found: numbers of the variables measured now, and their scaled values.

        Returns:
            The outputs; None if the time is before the last one or too late, and the state stays as it was.
        """
        memory, layer = now.memory.copy(), now.layer.copy()
        parts, (units, features, variables, _) = memory.view(self.parts)[0], self.sizes
        start, last, steps = parts["clock"].tolist()
        moment, gap = ((time - start) / self.gap, (time - start) / self.gap - layer.time) if steps else (0.0, 0.0)
        if not abs(time) <= EXACT_FLOAT64 or (steps and time < last) or moment > self.reach:
            return None
        steps += 1
        parts["clock"] = start if steps > 1 else time, time, steps
        x, read, since, first = parts["x"], parts["read"], parts["since"], parts["first"]
        values, new, age = np.split(x[: 3 * variables], 3)
        new[:] = 0.0
        for number, scaled in found:
            values[number], new[number], since[number] = scaled, 1.0, moment
            if not parts["known"][number]:
                parts["known"][number] = 1
                first[number] = scaled
        np.log1p((moment - since).astype(np.float32), out=age)
        before = x[features - 1]
        x[features - 2 : features] = math.log1p(gap), moment / self.span
        kept = np.exp(np.float32(-RATE) * (x[features - 1] - before))
        read[:units] = self.layer.run(layer, torch.from_numpy(x).unsqueeze(0), torch.tensor([moment], dtype=torch.float64))[0]
        np.maximum(read[units:], read[:units], out=read[units:])

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
        columns = np.concatenate([x[:features], mean, *extremes, values - first, x[features:]])
        states = self.weight.dot(read).astype(np.float64)
        parts["sums"] += states[self.outputs :]
        outputs: list[float] = (states[: self.outputs] + parts["sums"] / steps + self._read_summaries(columns)).tolist()
        if math.isfinite(sum(outputs)):
            now.memory, now.layer = memory, layer
        return outputs

    def _read_summaries(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """What the linear layer makes of the pieces of summaries, its bias, and the products of pairs, for each output."""
        cut = np.clip((columns - self.knots) * self.slope, 0.0, 1.0)
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
