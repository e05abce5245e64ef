"""The state of one online sequence, and its next step: in numpy, and by the compiled core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator.recent import RATE
from phased.estimator.shared import Shared
from phased.estimator.stepping import Memory


class Sequence:
    """What is known of a sequence so far, and its next step in numpy.

    Args:
        shared: what the sequences of a model share.
        static: inputs of static variables.

    Attributes:
        x: inputs of the layer: values, masks and ages of the variables, the gap, the time, static inputs.
        columns: summaries of the inputs, which the linear layer reads: last, mean, recent highest and lowest, roughness, change,
            static inputs.
        read: states of the layer and their highest values, which it reads too.
        recent: of each variable the last-known value, how far above and below it the variable has recently been, the sum of its
            absolute changes, and the number of its measurements, (5, variables).
        first: first values of the variables.
        known: variables that were measured, 0 or 1.
        since: when each variable was last measured, or the first step was, in median gaps.
        totals: inputs, summed over all steps.
        sums: what the weights of mean states make of each step, summed over all steps.
        memory: the state of the layer.
        block: the memory of all of these, one after another, as bytes.
    """

    __slots__ = ("block", "columns", "first", "known", "memory", "read", "recent", "shared", "since", "sums", "totals", "x")

    def __init__(self, shared: Shared, static: NDArray[np.float32]) -> None:
        units, features, variables, _ = shared.sizes
        self.shared, columns, states = shared, shared.start.shape[1], shared.steps.states
        doubles = np.cumsum([variables, features, shared.outputs])
        singles = np.cumsum([features + len(static), columns, 2 * units, 5 * variables, variables, states * units])
        ends = 8 * doubles[-1], 8 * doubles[-1] + 4 * singles[-1]
        self.block = np.zeros(ends[1] + variables, np.uint8)
        self.since, self.totals, self.sums = np.split(self.block[: ends[0]].view(np.float64), doubles[:-1])
        parts = np.split(self.block[ends[0] : ends[1]].view(np.float32), singles[:-1])
        self.x, self.columns, self.read, recent, self.first, memory = parts
        self.recent, self.known = recent.reshape(5, variables), self.block[ends[1] :]
        self.memory = Memory(memory.reshape(states, units))
        self.x[features:] = static
        self.columns[columns - len(static) :] = static
        self.read[units:] = -np.inf

    def take(self, now: float, gap: float, last: float, steps: int, found: list[tuple[int, float]]) -> list[float]:
        """The outputs of the linear layer after an event.

        Args:
            now: time since the first event, in median gaps.
            gap: time since the last event, in median gaps.
            last: time of the last event since the first, in median gaps.
            steps: the number of this event, from 1.
            found: numbers of the variables measured now, and their scaled values.

        Returns:
            One number for each output.
        """
        shared, x = self.shared, self.x
        units, features, variables, _ = shared.sizes
        x[variables : 2 * variables] = 0.0
        for number, scaled in found:
            x[number] = scaled
            x[variables + number] = 1.0
            self.since[number] = now
            if not self.known[number]:
                self.known[number] = 1
                self.first[number] = scaled
        np.log1p((now - self.since).astype(np.float32), out=x[2 * variables : 3 * variables])
        before = x[3 * variables + 1]
        x[3 * variables], x[3 * variables + 1] = math.log1p(gap), now / shared.span
        kept = np.exp(np.float32(-RATE) * (x[3 * variables + 1] - before))
        state = self.read[:units]
        state[:] = shared.steps(x, now, self.memory, last)
        np.maximum(self.read[units:], state, out=self.read[units:])
        self._summarise(x[:features], x[:variables], x[variables : 2 * variables], kept, steps)
        read = shared.weight.dot(self.read).astype(np.float64)
        self.sums += read[shared.outputs :]
        outputs: list[float] = (read[: shared.outputs] + self.sums / steps + shared.read_summaries(self.columns)).tolist()
        return outputs

    def _summarise(
        self, inputs: NDArray[np.float32], values: NDArray[np.float32], new: NDArray[np.float32], kept: Any, steps: int
    ) -> None:
        """Take the inputs of a step into their summaries. `kept`: the share of the past that is not forgotten."""
        features, variables = len(inputs), len(values)
        ends = np.cumsum([features, features, *[variables] * 4])
        last, mean, highest, lowest, roughness, change, _ = np.split(self.columns, ends)
        last[:] = inputs
        self.totals += inputs
        mean[:] = self.totals / steps
        value, above, below, path, count = self.recent
        moved = np.where(count > 0, values - value, np.float32(0))
        np.maximum(above * kept - moved, 0, out=above)
        np.maximum(below * kept + moved, 0, out=below)
        path += np.abs(moved)
        count += new
        value[:] = values
        np.add(values, above, out=highest)
        np.subtract(values, below, out=lowest)
        np.divide(path, np.maximum(count - 1, 1), out=roughness)
        np.subtract(values, self.first, out=change)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, by name; the state of the layer is a copy."""
        names = ("x", "columns", "read", "recent", "first", "known", "since", "totals", "sums")
        return {name: getattr(self, name) for name in names} | {"state": self.memory.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned."""
        for name, value in self.arrays().items():
            if name != "state":
                value[:] = arrays[name]
        self.memory.restore(arrays["state"])


class CompiledSequence(Sequence):
    """The same with its next step by the compiled core."""

    __slots__ = ("_model", "_pointers")

    def __init__(self, shared: Shared, static: NDArray[np.float32]) -> None:
        super().__init__(shared, static)
        own = (self.x, self.columns, self.read, self.recent, self.first, self.known, self.since, self.totals, self.sums)
        assert shared.compiled is not None
        self._model = shared.compiled.model
        self._pointers = shared.compiled.sequence([*(array.ctypes.data for array in own), self.memory.h, self.memory.c])

    def take(self, now: float, gap: float, last: float, steps: int, found: list[tuple[int, float]]) -> list[float]:
        """The outputs of the linear layer after an event."""
        outputs: list[float] = self._model.take(self._pointers, now, gap, last, steps, found)
        return outputs
