"""Inputs of the network at each step of a sequence.

A step is one time at which something was measured. Its inputs contain, for each variable, the last known value, whether the
variable was measured at this step, and the logarithm of the time since the last measurement. Two more inputs are the logarithm of
the time since the previous step, and the time since the first step. Each numeric variable has four more inputs, relative to the
measurements of the sequence so far: the deviation from their mean, the change since the previous measurement, the rate of this
change, and the logarithm of their spread. The inputs do not depend on the units of the data: values are scaled, and times are in
median gaps or, since the first step, in median spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased.estimator.events import Events
from phased.estimator.ragged import gather, offsets
from phased.estimator.scaling import Array, Scaling
from phased.ops.native import core

Rows = NDArray[np.float32]
Indices = NDArray[np.int64]

SPREAD = 0.05
"""The square is added to the variance of the measurements so far, in scaled units. One measurement has a variance of 0."""
MOST = 8.0
"""Largest absolute deviation, change and rate."""
SOON = 0.3
"""Added to the time between two measurements, in median gaps, before a change is divided by this time."""


class Measured(NamedTuple):
    """Measured values of sequences, from which inputs are computed. `Events` describes the arrays.

    Args:
        time: times since the first step of the sequence, in median gaps.
        value: scaled values.

    Shape:
        - offset: (n + 1,) int64
        - entry: (S + 1,) int64
        - time: (S,) float64
        - variable: (M,) int32
        - value: (M,) float32
    """

    offset: Indices
    entry: Indices
    time: Array
    variable: NDArray[np.int32]
    value: Rows

    @classmethod
    def of(cls, events: Events, scaling: Scaling) -> Measured:
        """Scale the times and values of sequences."""
        return cls(events.offset, events.entry, elapsed(events, scaling), events.variable, scaling.values_of(events))

    def last(self, variable: int, steps: Indices) -> Rows:
        """Return the last known value of a variable at these steps, 0 before the first measurement."""
        at = np.flatnonzero(self.variable == variable)
        when = np.searchsorted(self.entry, at, "right") - 1
        found = np.searchsorted(when, steps, "right") - 1
        begin = self.offset[np.searchsorted(self.offset, steps, "right") - 1]
        known = np.append(when, -1)[found] >= begin
        return np.where(known, np.append(self.value[at], np.float32(0))[found], np.float32(0))


class Inputs:
    """Inputs of steps, computed from measurements. Batches and online sequences give the same inputs.

    Args:
        numbers: True for each numeric variable, False for each indicator of a text level.
        span: median span, in median gaps.

    Attributes:
        width: number of inputs of a step, without static variables.
        own: index of the variable of each number.
        core: the same object in the compiled core, or None.
    """

    def __init__(self, numbers: Sequence[bool], span: float) -> None:
        self.own, self.variables, self.span = np.flatnonzero(numbers), len(numbers), span
        self.width = width(len(numbers), len(self.own))
        place = np.where(numbers, np.cumsum(numbers) - 1, -1)
        settings = [span, SPREAD, MOST, SOON]
        self.core = None if core is None else core.Inputs(len(numbers), len(self.own), place.tolist(), settings)

    def kept(self) -> dict[str, int]:
        """Return the sizes of the arrays that hold the state of a sequence in addition to its last row, by name.

        "since": time of the last measurement of each variable, in median gaps. "count": number of measurements of each variable.
        "mean", "square": mean, and sum of squared deviations from the mean, of the measurements of each number.
        """
        return {"since": self.variables, "count": self.variables, "mean": len(self.own), "square": len(self.own)}

    def step(self, x: Rows, state: dict[str, Array], now: Array, after: Array, values: Rows) -> None:
        """Update rows and states by the next step of some sequences, in place.

        Args:
            x: rows of inputs of the previous step, (sequences, width).
            state: arrays of `kept`, each of shape (sequences, size).
            now: times since the first step, in median gaps, (sequences,).
            after: times since the previous step, in median gaps, (sequences,).
            values: scaled values, NaN where not measured, (sequences, variables).
        """
        own = self.own
        value, mask, age, times, deviation, change, rate, spread = np.split(x, self.edges(), 1)
        new = ~np.isnan(values)
        change[:] = rate[:] = 0.0
        state["count"] += new
        seen, of_own = state["count"][:, own], new[:, own]
        given, apart = values[:, own].astype(np.float64), now[:, None] - state["since"][:, own]
        with np.errstate(invalid="ignore", divide="ignore"):  # variables that were not measured
            from_mean = given - state["mean"]
            mean = state["mean"] + from_mean / seen
            square = state["square"] + from_mean * (given - mean)
            sigma = np.sqrt(square / seen + SPREAD * SPREAD)
            by = np.where(seen > 1, (given - value[:, own]) / sigma, 0.0)
            found = (given - mean) / sigma, by, by / (apart + SOON)
            for part, made in zip((deviation, change, rate), found, strict=True):
                np.copyto(part, np.clip(made, -MOST, MOST), where=of_own, casting="same_kind")
            spread[:] = np.where(of_own, np.log(sigma), spread)
        state["mean"][of_own], state["square"][of_own] = mean[of_own], square[of_own]
        state["since"][:] = np.where(new, now[:, None], state["since"])
        mask[:] = new
        value[:] = np.where(new, values, value)
        age[:] = np.log1p((now[:, None] - state["since"]).astype(np.float32))
        times[:, 0], times[:, 1] = np.log1p(after), now / self.span

    def edges(self) -> list[int]:
        """Return the first column of each part after the values: masks, ages, times, deviations, changes, rates, spreads."""
        edges: list[int] = np.cumsum([self.variables] * 3 + [2] + [len(self.own)] * 3).tolist()
        return edges

    def rows(self, measured: Measured, chosen: Indices) -> Rows:
        """Return the inputs of all steps of some sequences, (steps, width)."""
        offset = offsets(np.diff(measured.offset)[chosen])
        x = np.empty((offset[-1], self.width), np.float32)
        self.fill(measured, chosen, x, offset[:-1])
        return x

    def fill(self, measured: Measured, chosen: Indices, x: Rows, first: Indices, apart: int = 1, steps: int = 0) -> None:
        """Write the inputs of some sequences to rows of x, in place.

        Args:
            chosen: numbers of the sequences.
            x: rows of at least `width` columns. Further columns are copied from the first row of a sequence to its other rows.
            first: row of the first step of each of the sequences.
            apart: number of rows from a step to the next step of the same sequence.
            steps: number of rows per sequence. The rows after the last step become zeros.
        """
        if self.core is not None:
            chosen, first = (np.ascontiguousarray(each, np.int64) for each in (chosen, first))
            arrays = chosen, first, measured.offset, measured.entry, measured.time, measured.variable, measured.value, x
            sizes = len(chosen), x.shape[1], apart, steps, torch.get_num_threads()
            self.core.batch(sizes, [array.ctypes.data for array in arrays])
            return
        begin = measured.offset[chosen]
        lengths = measured.offset[chosen + 1] - begin
        for step in range(steps):
            x[first[lengths <= step] + step * apart] = 0.0
        order = np.argsort(-lengths, kind="stable")
        row_of = np.zeros((len(chosen), self.width), np.float32)
        state = {name: np.zeros((len(chosen), size)) for name, size in self.kept().items()}
        for step in range(int(lengths.max(initial=0))):
            own = order[: int((lengths > step).sum())]  # the longest sequences come first
            at = begin[own] + step
            entry, ends = gather(measured.entry, at)
            values = np.full((len(at), self.variables), np.nan, np.float32)
            values[np.repeat(np.arange(len(at)), np.diff(ends)), measured.variable[entry]] = measured.value[entry]
            after = measured.time[at] - measured.time[at - 1] if step else np.zeros(len(at))
            rows, parts = row_of[: len(at)], {name: part[: len(at)] for name, part in state.items()}
            self.step(rows, parts, measured.time[at], after, values)
            x[first[own] + step * apart, : self.width] = rows
            x[first[own] + step * apart, self.width :] = x[first[own], self.width :]


def shared(variables: int) -> int:
    """Return the number of inputs that come before the relative inputs of numbers in a row."""
    return 3 * variables + 2


def width(variables: int, numbers: int) -> int:
    """Return the number of inputs per step, without static variables."""
    return shared(variables) + 4 * numbers


def elapsed(events: Events, scaling: Scaling) -> Array:
    """Return the time of each step since the start of its sequence, in median gaps, (steps,): the clock of gates and inputs."""
    with np.errstate(over="ignore"):  # times beyond the reach of a model may become infinite, and raise an error later
        since: Array = (events.time - events.time[events.offset[events.sequence]]) / scaling.gap
    return since
