"""Inputs: what the network reads at each step of a sequence.

A step is one time at which something was measured. For each variable it has the last known value, whether it was measured now,
and the logarithm of the time since that. Two more inputs are the time since the step before and since the first step. Nothing
depends on the units of the data: values are scaled, and times count in median gaps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phased.estimator.events import Events
from phased.estimator.scaling import Array, Scaling

CHUNK = 1 << 16
"""Steps whose inputs are computed together, so that intermediate results stay small."""


def width(variables: int) -> int:
    """The number of inputs of a step, without those of static variables."""
    return 3 * variables + 2


def elapsed(events: Events, scaling: Scaling) -> Array:
    """The time of each step since the first of its sequence, in median gaps, (steps,): the clock of gates and inputs."""
    with np.errstate(over="ignore"):  # infinite beyond the reach of a model, which is refused
        since: Array = (events.time - events.time[events.offset[events.sequence]]) / scaling.gap
    return since


def inputs(events: Events, scaling: Scaling) -> NDArray[np.float32]:
    """The inputs of all steps, (steps, width)."""
    steps, variables = len(events.time), len(events.variables)
    made = np.zeros((steps, width(variables)), np.float32)
    scaled = scaling.values(events.value, events.variable)
    rows, start, since = events.step, events.offset[events.sequence], elapsed(events, scaling)
    first = 0
    while first < len(events):
        # Whole sequences, at least one.
        last = max(first + 1, int(np.searchsorted(events.offset, events.offset[first] + CHUNK, "right")) - 1)
        begin, end = (int(step) for step in events.offset[[first, last]])
        some = slice(*(int(entry) for entry in events.entry[[begin, end]]))
        measured = rows[some] - begin, events.variable[some], scaled[some]
        _fill(made[begin:end], *measured, since[begin:end], start[begin:end] - begin)
        first = last
    gap = np.diff(since, prepend=0.0)
    gap[start == np.arange(steps)] = 0.0
    made[:, -2] = np.log1p(gap)
    made[:, -1] = since / scaling.span_in_gaps
    return made


def _fill(
    made: NDArray[np.float32],
    row: NDArray[np.int64],
    column: NDArray[np.int32],
    value: Array,
    since: Array,
    start: NDArray[np.int64],
) -> None:
    """Values, masks and ages of some whole sequences."""
    variables = (made.shape[1] - 2) // 3
    values, masks, ages = (made[:, part * variables : (part + 1) * variables] for part in range(3))
    measured = np.full((len(made), variables), -1, np.int64)
    measured[row, column] = row
    np.maximum.accumulate(measured, axis=0, out=measured)
    known = measured >= start[:, None]
    dense = np.zeros((len(made), variables))
    dense[row, column] = value
    values[:] = np.where(known, np.take_along_axis(dense, np.maximum(measured, 0), 0), 0.0)
    masks[row, column] = 1.0
    # Before its first measurement the age of a variable is the time since the first step.
    ages[:] = since[:, None] - since[np.where(known, measured, start[:, None])]
    np.log1p(ages, out=ages)
