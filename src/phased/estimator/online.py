"""Online: one sequence through a trained model, event by event, with the numbers that the batch gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from phased import check
from phased.estimator.shared import Shared

NUMBERS = frozenset((float, int, np.float64, np.float32, np.int64, np.int32))
"""Types of a number that need no conversion."""

LISTS = ("measured", "unknown")
"""Parts of a dumped state whose length differs."""


class Online:
    """One sequence that is measured now. `model.online()` makes it.

    Sequences of a model share its weights, and each keeps a few kilobytes. One thread at a time may use a sequence; different
    sequences may be used in different threads.

    Example:
        >>> import numpy as np
        >>> from phased.estimator import Events, PhasedClassifier
        >>> times, values = [np.arange(5.0)] * 20, [np.full((5, 1), label) for label in [0, 1] * 10]
        >>> X = Events.of(times, values, variables=["HR"], unit="h")
        >>> model = PhasedClassifier(units=4, epochs=2, random_state=0).fit(X, [0, 1] * 10)
        >>> patient = model.online()
        >>> for t in range(5):
        ...     risk = patient.push(t, {"HR": 0.0})
        >>> bool(abs(risk - model.predict_proba(X[0])[0, 1]) < 1e-5)
        True
    """

    __slots__ = (
        "_ages",
        "_change",
        "_columns",
        "_first",
        "_highest",
        "_lowest",
        "_mean",
        "_measured",
        "_memory",
        "_now",
        "_read",
        "_shared",
        "_since",
        "_start",
        "_state",
        "_steps",
        "_sums",
        "_time",
        "_top",
        "_totals",
        "_unknown",
        "_values",
        "_x",
    )

    def __init__(self, shared: Shared, static: NDArray[np.float32]) -> None:
        units, features, variables, _ = shared.sizes
        self._shared = shared
        # What the linear layer reads: states and highest states in one array, summaries of the inputs in another.
        self._read = np.zeros(2 * units, np.float32)
        self._state, self._highest = np.split(self._read, 2)
        self._columns = np.zeros(shared.start.shape[1], np.float32)
        ends = np.cumsum([features, features, variables, variables, variables])
        last, self._mean, self._top, self._lowest, self._change, known = np.split(self._columns, ends)
        known[:] = static
        self._x = np.concatenate([last, static])  # inputs of the layer
        self._values, self._ages = self._x[:variables], self._x[2 * variables : 3 * variables]
        self._highest[:], self._top[:], self._lowest[:] = -np.inf, -np.inf, np.inf
        self._first = np.zeros(variables, np.float32)  # first values of the variables
        self._unknown = set(range(variables))  # variables that were not measured yet
        self._measured: list[int] = []  # variables measured at the last step
        self._since = np.zeros(variables)  # when each was last measured, or the first step was, in median gaps
        self._memory = shared.steps.state()
        self._totals = np.zeros(features)  # inputs, summed over all steps
        self._sums = [0.0] * shared.outputs  # over all steps, of what the weights of mean states make of each
        self._start = self._time = math.nan  # of the first step and of the last
        self._now = -math.inf  # of the last step since the first, in median gaps
        self._steps = 0

    @property
    def time(self) -> float | None:
        """The time of the last event, or None before the first.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20)).online().time is None
            True
        """
        return self._time if self._steps else None

    def push(self, time: float, values: Mapping[str, float]) -> Any:
        """Take what was measured at one time.

        Args:
            time: In the unit of the model, after the last event.
            values: Variables to numbers; may be empty.

        Returns:
            Two classes: the probability of the second of `classes_`, a float. More classes: all probabilities, (classes,).
            A regression: the number, a float.

        Raises:
            TypeError: A time or value is no number.
            ValueError: A variable is unknown, a number is not finite, or the time is not after the last. Nothing changes then.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> sequence = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20)).online()
            >>> isinstance(sequence.push(0.5, {"x0": 3.0}), float)
            True
        """
        shared = self._shared
        if type(time) not in NUMBERS:
            time = shared.number("time", time)
        if not (self._time < time < math.inf) and (self._steps or not math.isfinite(time)):
            raise ValueError(shared.wrong_time(time, self.time))
        columns = shared.columns
        found = []
        for name, value in values.items():
            column = columns.get(name)
            if column is None:
                raise ValueError(shared.unknown("variables", name, columns))
            if type(value) not in NUMBERS:
                value = shared.number(name, value)
            number, (center, factor, low, high) = column
            if not -math.inf < value < math.inf:
                raise ValueError(f"{name} must be finite, got {value} at time {time}. Leave out what was not measured.")
            found.append((number, ((low if value < low else high if value > high else value) - center) * factor))
        return self._take(time, found)

    def _take(self, time: float, found: list[tuple[int, float]]) -> Any:
        """The answer after a valid event."""
        shared, x, variables = self._shared, self._x, self._shared.sizes.variables
        if self._steps:
            now = (time - self._start) / shared.gap
            gap = now - self._now
        else:
            self._start, now, gap = time, 0.0, 0.0
        for number in self._measured:
            x[variables + number] = 0.0
        self._measured = [number for number, _ in found]
        for number, scaled in found:
            x[number] = scaled
            x[variables + number] = 1.0
            self._since[number] = now
            if number in self._unknown:
                self._unknown.remove(number)
                self._first[number] = scaled
        np.subtract(now, self._since, out=self._ages, casting="same_kind")
        np.log1p(self._ages, out=self._ages)
        x[3 * variables], x[3 * variables + 1] = math.log1p(gap), now / shared.span
        self._state[:] = shared.steps(x, now, self._memory, self._now)
        self._time, self._now = time, now
        self._steps += 1
        np.maximum(self._highest, self._state, out=self._highest)
        self._summarise()
        read, pieces = shared.weight.dot(self._read).tolist(), shared.read_pieces(self._columns)
        outputs, steps = shared.outputs, self._steps
        self._sums = [total + more for total, more in zip(self._sums, read[outputs:], strict=True)]
        parts = zip(read, self._sums, pieces, strict=False)  # of what was read, the first half
        return shared.answer([last + total / steps + piece for last, total, piece in parts])

    def _summarise(self) -> None:
        """Take the inputs of a step into their summaries."""
        inputs, values = self._x[: len(self._totals)], self._values
        self._columns[: len(inputs)] = inputs
        self._totals += inputs
        np.divide(self._totals, self._steps, out=self._mean, casting="same_kind")
        np.maximum(self._top, values, out=self._top)
        np.minimum(self._lowest, values, out=self._lowest)
        np.subtract(values, self._first, out=self._change)

    def dump(self) -> bytes:
        """The state as bytes, for a file or a database; `model.online(state=...)` continues from there.

        Returns:
            A safetensors file of a few kilobytes. It has no weights, and is for this model only.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20))
            >>> first = model.online()
            >>> before = first.push(0.5, {"x0": 3.0})
            >>> second = model.online(state=first.dump())
            >>> first.push(2.0, {"x0": 4.0}) == second.push(2.0, {"x0": 4.0})
            True
        """
        return safetensors.numpy.save(
            {
                "model": np.frombuffer(self._shared.digest, np.uint8),
                "since": self._since,
                "measured": np.array(self._measured, np.int64),
                "state": self._memory.arrays(),
                "read": self._read,
                "inputs": self._x,
                "totals": self._totals,
                "columns": self._columns,
                "first": self._first,
                "unknown": np.array(sorted(self._unknown), np.int64),
                "sums": np.array(self._sums),
                "clock": np.array([self._start, self._time, self._now, self._steps]),
            }
        )

    def _load(self, data: bytes) -> None:
        """Continue from what `dump` returned."""
        try:
            found = safetensors.numpy.load(data)
        except (SafetensorError, TypeError) as error:
            raise ValueError(f"state must be what dump() returned, got {check.kind(data)} that is cut off or damaged.") from error
        expected = safetensors.numpy.load(self.dump())
        if found.keys() != expected.keys() or bytes(found["model"]) != self._shared.digest:
            raise ValueError("state must be of this model, got one of another. Load the model that it was made with.")
        for name, value in expected.items():
            if found[name].dtype != value.dtype or (name not in LISTS and found[name].shape != value.shape):
                raise ValueError(f"state must have {name!r} of shape {value.shape}, got {found[name].shape}. It is damaged.")
        parts: dict[str, NDArray[Any]] = {"read": self._read, "since": self._since, "inputs": self._x, "totals": self._totals}
        parts |= {"columns": self._columns, "first": self._first}
        for name, part in parts.items():
            part[:] = found[name]
        self._sums = found["sums"].tolist()
        self._measured, self._unknown = found["measured"].tolist(), set(found["unknown"].tolist())
        self._memory.restore(found["state"])
        self._start, self._time, self._now, steps = found["clock"].tolist()
        self._steps = int(steps)
