"""Tables of numbers from sequences, for models of tables and of series: of each sequence, of each step, and at even places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class Sequences(NamedTuple):
    """Arrays of n sequences of S steps with M measurements of `width` variables, as in `phased.estimator.Events`.

    Args:
        offset: first step of each sequence, and S.
        time: of each step.
        entry: first measurement of each step, and M.
        variable: of each measurement.
        value: of each measurement.
        static: (n, statics), NaN where not known.
    """

    offset: Integers
    time: Numbers
    entry: Integers
    variable: NDArray[np.int32]
    value: Numbers
    static: Numbers
    width: int

    @property
    def sequence(self) -> Integers:
        """Sequence of each step."""
        return np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset))

    @property
    def since(self) -> Numbers:
        """Time of each step since the first step of its sequence."""
        found: Numbers = self.time - self.time[self.offset[self.sequence]]
        return found

    def dense(self) -> Numbers:
        """Values as a matrix (S, width), NaN where not measured."""
        found = np.full((len(self.time), self.width), np.nan)
        found[np.repeat(np.arange(len(self.time)), np.diff(self.entry)), self.variable] = self.value
        return found


def of_sequences(data: Sequences) -> Numbers:
    """Summarise each sequence: each variable by `of_groups`, number of steps, span, mean gap, and static variables."""
    count, steps = len(data.static), np.diff(data.offset)
    step = np.repeat(np.arange(len(data.time)), np.diff(data.entry))
    key = data.sequence[step] * data.width + data.variable
    order = np.argsort(key, kind="stable")
    groups, found = of_groups(key[order], data.since[step[order]], data.value[order])
    made = np.full((count * data.width, found.shape[1]), np.nan)
    made[:, 0] = 0
    made[groups] = found
    span = np.zeros(count)
    span[data.sequence] = data.since  # of several steps the last is kept
    return np.column_stack([made.reshape(count, -1), steps, span, divided(span, steps - 1), data.static])


def of_groups(key: Integers, time: Numbers, value: Numbers) -> tuple[Integers, Numbers]:
    """Summarise measurements of each key, which are sorted by key and time.

    Returns:
        The keys, and for each the count, first, last, mean, deviation, minimum, maximum, quantiles, mean step (without its sign),
        slope over time and mean gap. NaN where there are too few measurements.
    """
    groups, start, count = np.unique(key, return_index=True, return_counts=True)
    if not len(groups):
        return groups, np.empty((0, 10 + len(QUANTILES)))
    last = start + count - 1

    def total(of: Numbers) -> Numbers:
        found: Numbers = np.add.reduceat(of, start)
        return found

    mean, middle = total(value) / count, total(time) / count
    apart, later = value - np.repeat(mean, count), time - np.repeat(middle, count)
    steps = np.abs(np.diff(value, prepend=0.0))
    steps[start] = 0
    ranked = value[np.lexsort((value, key))]
    quantiles = []
    for share in QUANTILES:
        place = start + share * (count - 1)
        below = np.floor(place).astype(np.int64)
        quantiles.append(ranked[below] + (place - below) * (ranked[np.minimum(below + 1, last)] - ranked[below]))
    return groups, np.column_stack(
        [
            count,
            value[start],
            value[last],
            mean,
            np.sqrt(total(apart**2) / count),
            np.minimum.reduceat(value, start),
            np.maximum.reduceat(value, start),
            *quantiles,
            divided(total(steps), count - 1),
            divided(total(apart * later), total(later**2)),
            divided(time[last] - time[start], count - 1),
        ]
    )


def of_steps(data: Sequences) -> NDArray[np.float32]:
    """Summarise at each step the steps up to it: each variable by `so_far`, times, the number of steps, and static variables."""
    made = [np.empty((0, 8 * data.width + 4))]
    dense, since = data.dense(), data.since
    for start, end in zip(data.offset[:-1], data.offset[1:], strict=True):
        time = since[start:end]
        clocks = [data.time[start:end], time, np.diff(time, prepend=0.0), np.arange(end - start)]
        made.append(np.column_stack([so_far(time, dense[start:end]), *clocks]))
    return np.column_stack([np.concatenate(made), data.static[data.sequence]]).astype(np.float32)


def so_far(time: Numbers, value: Numbers) -> Numbers:
    """Summarise at each of T steps the values (T, V) up to it.

    Returns:
        (T, 8 V): last value, age, mean, deviation, count, minimum, maximum and the difference of the last two values of each
        variable. NaN where there are too few values.
    """
    known = ~np.isnan(value)
    count = known.cumsum(0)
    row = np.maximum.accumulate(np.where(known, np.arange(len(value))[:, None], -1))  # of the last value
    before = np.where(row > 0, np.take_along_axis(row, np.maximum(row - 1, 0), 0), -1)  # of the value before it

    def at(rows: Integers) -> Numbers:
        return np.where(rows < 0, np.nan, np.take_along_axis(value, np.maximum(rows, 0), 0))

    first = np.take_along_axis(value, known.argmax(0)[None], 0)  # deviations are taken from it, for precision
    apart = np.where(known, value - first, 0.0)
    mean = divided(apart.cumsum(0), count)
    variance = divided((apart**2).cumsum(0), count) - mean**2
    age = np.where(row < 0, np.nan, time[:, None] - time[np.maximum(row, 0)])
    lowest = np.minimum.accumulate(np.where(known, value, np.inf))
    highest = np.maximum.accumulate(np.where(known, value, -np.inf))
    return np.column_stack(
        [
            at(row),
            age,
            mean + first,
            np.sqrt(np.maximum(variance, 0.0)),
            count,
            np.where(count > 0, lowest, np.nan),
            np.where(count > 0, highest, np.nan),
            at(row) - at(before),
        ]
    )


def resampled(data: Sequences, length: int, by_time: bool) -> Numbers:
    """Interpolate each variable, and the logarithm of gaps, at places that are even in time or in the number of the step.

    Returns:
        (n, width + 1, length), constant before the first and after the last value of a variable, and NaN without a value.
    """
    made = np.full((len(data.static), data.width + 1, length), np.nan)
    dense, since = data.dense(), data.since
    for series, start, end in zip(made, data.offset[:-1], data.offset[1:], strict=True):
        time, value = since[start:end], dense[start:end]
        place = time if by_time else np.arange(end - start, dtype=np.float64)
        gaps = np.log1p(np.diff(time, prepend=0.0))
        for channel, column in zip(series, [*value.T, gaps], strict=True):
            known = ~np.isnan(column)
            if known.any():
                channel[:] = np.interp(np.linspace(0.0, place[-1], length), place[known], column[known])
    return made


def divided(a: NDArray[np.float64], b: NDArray[np.float64] | Integers) -> Numbers:
    """Return a / b, NaN where b is not positive."""
    positive = np.asarray(b) > 0
    found: Numbers = np.where(positive, a, np.nan) / np.where(positive, b, 1)
    return found
