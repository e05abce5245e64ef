"""Scaling: centre, spread and bounds of every variable, measured on the training sequences."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator.events import Events

Array = NDArray[np.float64]

BOUNDS = (0.005, 0.995)
"""Values outside these quantiles are moved to them: an outlier counts as an extreme value, not more."""
LARGEST = 1e300
"""Values are at most this far from 0, and vary by at least 1 / LARGEST."""
REACH = 1e12, 1e30
"""Longest time since the first step, in median spans and in median gaps. Inputs made of it are finite in float32."""
CLOCK_STEPS, CLOCK_ERROR = 100, 0.05
"""Least number of increases and largest relative error of a clock: a variable that rises in proportion to the time."""
ROUNDING = 1e-12
"""A clock that differs from the time by this part of its values, or less, has no other information than the time."""
STEEPEST = 1e250
"""Largest increase of a clock per unit of time. The product with any time is finite."""
CHUNK = 1 << 18
"""Number of measurements that are scaled at once."""
PIECES = 16
"""A static number is cut at most into this many pieces, if every step has a target."""
MOST_LEVELS = 10
"""A static variable with 3 to this many different whole numbers is a code, and each of them gets an input of its own."""


@dataclass(frozen=True)
class Numbers:
    """How to scale columns of numbers: bounded to [low, high], less the centre, times the factor; each of shape (columns,)."""

    center: Array
    factor: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, columns: list[Array], unscaled: Collection[int] = ()) -> Numbers:
        """Measured on the finite values of each column. A column without any, or of one value, becomes 0."""
        as_it_is = (0.0, 1.0, 0.0, 1.0)
        found = [as_it_is if at in unscaled else _measured(column[np.isfinite(column)]) for at, column in enumerate(columns)]
        return cls(*np.ascontiguousarray(np.reshape(found, (-1, 4)).T))

    def __call__(self, values: Array, column: Any = ...) -> Array:
        """Scale values (..., columns), or values (N,) of the columns with these numbers (N,); NaN stays NaN."""
        bounded = np.clip(values, self.low[column], self.high[column])
        scaled: Array = (bounded - self.center[column]) * self.factor[column]
        return scaled

    def fits(self, columns: int) -> bool:
        """Whether it has bounds in order for so many columns, whose scaled values are finite in float32."""
        if any(getattr(self, name).shape != (columns,) for name in NUMBERS) or not (self.low <= self.high).all():
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.abs([self(self.low), self(self.high)]).astype(np.float32)
        return bool(np.isfinite(scaled).all() and (np.abs([self.center, self.low, self.high]) <= LARGEST).all())


NUMBERS = ("center", "factor", "low", "high")


def _measured(values: Array) -> tuple[float, float, float, float]:
    """Centre, factor, and bounds of one column."""
    if not len(values):
        return 0.0, 1.0, 0.0, 0.0
    values = np.sort(values)  # so that rounding does not depend on the order of the sequences
    low, high = (float(value) for value in np.quantile(values, BOUNDS))
    bounded = np.clip(values, low, high)
    center, spread = center_and_spread(bounded)
    # Rounding leaves a spread in a column of one value, which must not be magnified.
    constant = spread <= max(1e-14 * max(abs(low), abs(high)), 1 / LARGEST)
    return center, 0.0 if constant else 1.0 / spread, low, high


def center_and_spread(values: Array) -> tuple[float, float]:
    """Return mean and standard deviation. Numbers near 1e300 or 1e-300 are scaled by a power of two, which rounds nothing."""
    exponent = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    scaled = np.ldexp(values, -exponent)
    return float(np.ldexp(scaled.mean(), exponent)), float(np.ldexp(scaled.std(), exponent))


@dataclass(frozen=True)
class Scaling:
    """Statistics of the training sequences that turn measurements into inputs.

    Args:
        values: scaling of the variables measured over time.
        numbers: True for each numeric variable, False for each indicator of a text level.
        slopes: increase of each clock per unit of time, which is subtracted from its values. 0 for all other variables.
        statics: scaling of the static variables.
        levels: codes of each static variable, or () for a number.
        gap: the median time between two steps, above 0.
        span: the median time from the first to the last step, above 0.
        knots: quantiles of the scaled values of each static variable, between which it is cut into pieces, or ().
    """

    values: Numbers
    numbers: tuple[bool, ...]
    slopes: Array
    statics: Numbers
    levels: tuple[tuple[float, ...], ...]
    gap: float
    span: float
    knots: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, events: Events, every_step: bool = False) -> Scaling:
        """Measure on these sequences. Static numbers are cut into pieces if every step has a target.

        With one target per sequence the network cuts all summaries into pieces itself (`phased.estimator.summary`).
        """
        statics, text = list(events.static.T), events.settings.indicators
        gap, span = clock(events)
        numbers = tuple(name not in text for name in events.variables)
        slopes = np.array([slope_of(events, at) if number else 0.0 for at, number in enumerate(numbers)])
        values = Numbers.of(
            events.by_variable(without_time(events, slopes)), {at for at, number in enumerate(numbers) if not number}
        )
        for at, raw in enumerate(events.by_variable(events.value)):
            if slopes[at] and values.factor[at] * np.abs(raw).max() > 1 / ROUNDING:
                values.factor[at] = 0.0
        of_statics = Numbers.of(statics, {at for at, name in enumerate(events.statics) if name in text})
        levels = tuple(levels_of(column) for column in statics)
        scaled = of_statics(events.static).T
        knots = (knots_of(column) if every_step and not codes else () for column, codes in zip(scaled, levels, strict=True))
        return cls(values, numbers, slopes, of_statics, levels, gap, span, tuple(knots))

    @property
    def span_in_gaps(self) -> float:
        """The median span, in median gaps: at least 1."""
        return self.span / self.gap

    @property
    def reach(self) -> float:
        """The longest time since the first step that a sequence may have, in median gaps."""
        return min(REACH[0] * self.span_in_gaps, REACH[1])

    @property
    def static_features(self) -> int:
        """The number of inputs made from static variables: one for each level, or the number, whether it is known, and pieces."""
        return sum(len(levels) or 2 + len(knots[1:]) for levels, knots in zip(self.levels, self.knots, strict=True))

    def values_of(self, events: Events) -> NDArray[np.float32]:
        """Return the scaled values of all measurements, (M,)."""
        made, values = np.empty(len(events.value), np.float32), without_time(events, self.slopes)
        for first in range(0, len(made), CHUNK):  # numbers in float64 take several times the memory of the result
            own = slice(first, first + CHUNK)
            made[own] = self.values(values[own], events.variable[own])
        return made

    def static_inputs(self, static: Array) -> NDArray[np.float32]:
        """(n, statics) to (n, static_features): 0 where a value is unknown, or a code was not there in training."""
        scaled, columns = self.statics(static), []
        for index, (levels, knots) in enumerate(zip(self.levels, self.knots, strict=True)):
            if levels:
                columns += [static[:, index] == level for level in levels]
            else:
                known = np.isfinite(static[:, index])
                pieces = [np.clip((scaled[:, index] - low) / (high - low), 0.0, 1.0) for low, high in pairwise(knots)]
                columns += [np.where(known, column, 0.0) for column in (scaled[:, index], known, *pieces)]
        return np.stack(columns, 1).astype(np.float32) if columns else np.zeros((len(static), 0), np.float32)

    def fits(self, variables: int, statics: int) -> bool:
        """Return whether these numbers of variables fit, all inputs are finite in float32, and the times are above 0."""
        whole = self.values.fits(variables) and self.statics.fits(statics) and len(self.levels) == len(self.knots) == statics
        whole = whole and len(self.numbers) == variables == len(self.slopes) and bool((np.abs(self.slopes) <= STEEPEST).all())
        levels = np.isfinite([level for levels in self.levels for level in levels]).all()
        rising = all(0 < high - low < np.inf for knots in self.knots for low, high in pairwise(knots))
        return bool(whole and levels and rising and 0 < self.gap <= self.span < self.gap * REACH[1])


def without_time(events: Events, slopes: Array) -> Array:
    """Return the values of all measurements minus slope * time."""
    if not slopes.any():
        return events.value
    less: Array = events.value - slopes[events.variable] * events.time[events.step]
    return less


def slope_of(events: Events, variable: int) -> float:
    """Return the increase of a clock per unit of time, or 0 for any other variable.

    A clock never decreases, and over each sequence its increase is proportional to the time, up to a small error.
    """
    of = events.variable == variable
    sequence, time, value = events.sequence[events.step[of]], events.time[events.step[of]], events.value[of]
    same = sequence[1:] == sequence[:-1]
    rise, apart, owner = np.diff(value)[same], np.diff(time)[same], sequence[1:][same]
    if len(rise) < CLOCK_STEPS or (rise < 0).any() or not apart.any():
        return 0.0
    rises, times = (np.bincount(owner, each)[np.unique(owner)] for each in (rise, apart))
    slope = float(rises.sum() / times.sum())
    moves = slope > 0 and np.abs(rises - slope * times).sum() <= CLOCK_ERROR * rises.sum()
    uneven = np.abs(apart - apart.mean()).sum() > CLOCK_ERROR * apart.sum()  # with even gaps any steady rise looks like a clock
    return slope if moves and uneven and slope <= STEEPEST else 0.0


def levels_of(column: Array) -> tuple[float, ...]:
    """The codes of a static variable, or () if it is a number: few whole numbers, each of them more than once."""
    found, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    is_code = 3 <= len(found) <= MOST_LEVELS and bool((found == np.round(found)).all()) and int(counts.min()) > 1
    return tuple(found.tolist()) if is_code else ()


def knots_of(column: Array) -> tuple[float, ...]:
    """The quantiles of the known values that differ, or () if there are fewer than three."""
    known = column[np.isfinite(column)]
    found = np.unique(np.quantile(known, np.linspace(0, 1, PIECES + 1), method="nearest")) if len(known) else known
    return tuple(found.tolist()) if len(found) > 2 else ()


def clock(events: Events) -> tuple[float, float]:
    """The median gap and the median span of sequences, of those above 0; where there is none, the other one, or 1."""
    gaps, spans = (found[found > 0] for found in (events.gaps(), events.spans()))
    span = float(np.median(spans)) if len(spans) else 1.0
    gap = float(np.median(gaps)) if len(gaps) else span
    return gap, max(span, gap)
