"""Inputs: what the network reads at each step of a sequence.

A step is one time at which something was measured. For each variable it has the last known value, whether it was measured now,
and the logarithm of the time since that. Two more inputs are the time since the step before and since the first step. A variable
that is a number is read a second time, relative to the measurements of its own sequence so far: its deviation from their mean,
its change since the measurement before, the rate of this change, and the logarithm of their spread. Nothing depends on the units
of the data: values are scaled, and times count in median gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phased.estimator.events import Events
from phased.estimator.scaling import Array, Scaling
from phased.ops.native import core

Rows = NDArray[np.float32]

SPREAD = 0.05
"""Added, squared, to the variance of the measurements so far, in spreads of the training: one measurement has no variance."""
MOST = 8.0
"""Largest deviation, change and rate."""
SOON = 0.3
"""Added to the time between two measurements, in median gaps, before a change is divided by it."""


class Inputs:
    """The inputs of steps, from measurements. A batch of sequences and a sequence that arrives event by event have the same.

    Args:
        numbers: for each variable whether it is a number; else it is the indicator of a text's level.
        span: median span, in median gaps.

    Attributes:
        width: inputs of a step, without those of static variables.
        own: for each number the index of its variable.
        core: the same in the compiled core, or None.
    """

    def __init__(self, numbers: Sequence[bool], span: float) -> None:
        self.own, self.variables, self.span = np.flatnonzero(numbers), len(numbers), span
        self.width = width(len(numbers), len(self.own))
        place = np.where(numbers, np.cumsum(numbers) - 1, -1)
        settings = [span, SPREAD, MOST, SOON]
        self.core = None if core is None else core.Inputs(len(numbers), len(self.own), place.tolist(), settings)

    def kept(self) -> dict[str, int]:
        """The sizes of the state of a sequence beside its last row, by name.

        "since": time of the last measurement of each variable, in median gaps. "count": its measurements. "mean", "square": of
        each number the mean of its measurements, and the sum of their squared deviations from it.
        """
        return {"since": self.variables, "count": self.variables, "mean": len(self.own), "square": len(self.own)}

    def step(self, x: Rows, state: dict[str, Array], now: Array, after: Array, values: Rows) -> None:
        """Take the next step of some sequences, in place.

        Args:
            x: rows of the step before.
            state: see `kept`; each of shape (sequences, size).
            now: times since the first step, in median gaps, (sequences,).
            after: times since the step before.
            values: scaled values, NaN where not measured, (sequences, variables).
        """
        own = self.own
        value, mask, age, times, deviation, change, rate, spread = np.split(x, self.edges(), 1)
        new = ~np.isnan(values)
        change[:] = rate[:] = 0.0
        state["count"] += new
        seen, of_own = state["count"][:, own], new[:, own]
        given, apart = values[:, own].astype(np.float64), now[:, None] - state["since"][:, own]
        with np.errstate(invalid="ignore", divide="ignore"):  # where nothing was measured
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
        """Where the parts of a row begin, but for the first: masks, ages, times, deviations, changes, rates, spreads."""
        edges: list[int] = np.cumsum([self.variables] * 3 + [2] + [len(self.own)] * 3).tolist()
        return edges

    def batch(self, events: Events, scaling: Scaling, since: Array, extra: int = 0) -> NDArray[np.float32]:
        """The inputs of all steps, (steps, width + extra), with zeros in the last columns; `since` is `elapsed`."""
        made = np.zeros((len(events.time), self.width + extra), np.float32)
        values = scaling.values_of(events).astype(np.float32)
        if self.core is not None:
            arrays = events.offset, events.entry, since, events.variable, values, made
            self.core.batch(len(events), made.shape[1], *(array.ctypes.data for array in arrays))
            return made
        order = np.argsort(-events.lengths, kind="stable")
        x = np.zeros((len(events), self.width), np.float32)
        state = {name: np.zeros((len(events), size)) for name, size in self.kept().items()}
        for step in range(int(events.lengths.max(initial=0))):
            at = events.offset[order[: int((events.lengths > step).sum())]] + step  # the longest sequences come first
            first, last = events.entry[at], events.entry[at + 1]
            row = np.repeat(np.arange(len(at)), last - first)
            entry = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[row]
            measured = np.full((len(at), self.variables), np.nan, np.float32)
            measured[row, events.variable[entry]] = values[entry]
            after = since[at] - since[at - 1] if step else np.zeros(len(at))
            rows, parts = x[: len(at)], {name: part[: len(at)] for name, part in state.items()}
            self.step(rows, parts, since[at], after, measured)
            made[at, : self.width] = rows
        return made


def shared(variables: int) -> int:
    """The number of inputs of a step that do not depend on the measurements of its own sequence before; they come first."""
    return 3 * variables + 2


def width(variables: int, numbers: int) -> int:
    """The number of inputs of a step, without those of static variables."""
    return shared(variables) + 4 * numbers


def elapsed(events: Events, scaling: Scaling) -> Array:
    """The time of each step since the first of its sequence, in median gaps, (steps,): the clock of gates and inputs."""
    with np.errstate(over="ignore"):  # infinite beyond the reach of a model, which is refused
        since: Array = (events.time - events.time[events.offset[events.sequence]]) / scaling.gap
    return since
