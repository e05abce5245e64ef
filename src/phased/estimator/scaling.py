"""Scaling: centre, spread and bounds of every variable, measured on the training sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator.events import Events

Array = NDArray[np.float64]

BOUNDS = (0.005, 0.995)
"""Values outside these quantiles are moved to them: an outlier counts as an extreme value, not more."""
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
    def of(cls, columns: list[Array]) -> Numbers:
        """Measured on the finite values of each column; a column without any, or of one value, becomes 0."""
        found = np.array([_measured(column[np.isfinite(column)]) for column in columns]).reshape(-1, 4)
        return cls(*(np.ascontiguousarray(part) for part in found.T))

    def __call__(self, values: Array) -> Array:
        """Scale values of shape (..., columns); NaN stays NaN."""
        scaled: Array = (np.clip(values, self.low, self.high) - self.center) * self.factor
        return scaled

    def of_column(self, values: Array, column: NDArray[np.int32]) -> Array:
        """Scale values (N,) of the columns with these numbers, (N,)."""
        bounded = np.clip(values, self.low[column], self.high[column])
        scaled: Array = (bounded - self.center[column]) * self.factor[column]
        return scaled

    def fields(self) -> dict[str, list[float]]:
        """For JSON; Python writes a float so that it is read back as the same."""
        return {name: [float(value) for value in getattr(self, name)] for name in NUMBERS}

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Numbers:
        """What `fields` returned."""
        return cls(*(np.array(fields[name], dtype=np.float64) for name in NUMBERS))


NUMBERS = ("center", "factor", "low", "high")


def _measured(values: Array) -> tuple[float, float, float, float]:
    """Centre, factor, and bounds of one column."""
    if not len(values):
        return 0.0, 1.0, 0.0, 0.0
    values = np.sort(values)  # so that rounding does not depend on the order of the sequences
    low, high = (float(value) for value in np.quantile(values, BOUNDS))
    bounded = np.clip(values, low, high)
    center, spread = float(bounded.mean()), float(bounded.std())
    # Rounding leaves a spread in a column of one value, which must not be magnified.
    constant = spread <= 1e-9 * max(abs(low), abs(high))
    return center, 0.0 if constant else 1.0 / spread, low, high


@dataclass(frozen=True)
class Scaling:
    """Everything that is measured on the training sequences in order to make inputs from measurements.

    Args:
        values: of the variables measured over time.
        statics: of the static variables.
        levels: for each static variable, the whole numbers that are codes, or () where it is a number.
        gap: the median time between two steps, above 0.
        span: the median time from the first to the last step, above 0.
    """

    values: Numbers
    statics: Numbers
    levels: tuple[tuple[float, ...], ...]
    gap: float
    span: float

    @classmethod
    def of(cls, events: Events) -> Scaling:
        """Measured on these sequences."""
        statics = list(events.static.T)
        gap, span = clock(events)
        return cls(
            Numbers.of(by_variable(events)), Numbers.of(statics), tuple(levels_of(column) for column in statics), gap, span
        )

    @property
    def span_in_gaps(self) -> float:
        """The median span, in median gaps: at least 1."""
        return self.span / self.gap

    @property
    def static_features(self) -> int:
        """The number of inputs made from static variables: one for each level, or the number and whether it is known."""
        return sum(len(levels) or 2 for levels in self.levels)

    def static_inputs(self, static: Array) -> NDArray[np.float32]:
        """(n, statics) to (n, static_features): 0 where a value is unknown, or a code was not there in training."""
        scaled, columns = self.statics(static), []
        for index, levels in enumerate(self.levels):
            if levels:
                columns += [static[:, index] == level for level in levels]
            else:
                known = np.isfinite(static[:, index])
                columns += [np.where(known, scaled[:, index], 0.0), known]
        return np.stack(columns, 1).astype(np.float32) if columns else np.zeros((len(static), 0), np.float32)

    def fits(self, variables: int, statics: int) -> bool:
        """Whether it has a finite number for each of so many variables and static variables, and times above 0."""
        sizes = [(self.values, variables), (self.statics, statics)]
        parts = [(getattr(numbers, name), size) for numbers, size in sizes for name in NUMBERS]
        whole = all(part.shape == (size,) and bool(np.isfinite(part).all()) for part, size in parts)
        return whole and len(self.levels) == statics and 0 < self.gap <= self.span < self.gap * 1e30

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        levels = [list(found) for found in self.levels]
        return {
            "values": self.values.fields(),
            "statics": self.statics.fields(),
            "levels": levels,
            "gap": self.gap,
            "span": self.span,
        }

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Scaling:
        """What `fields` returned."""
        levels = tuple(tuple(map(float, found)) for found in fields["levels"])
        values, statics = Numbers.read(fields["values"]), Numbers.read(fields["statics"])
        return cls(values, statics, levels, float(fields["gap"]), float(fields["span"]))


def levels_of(column: Array) -> tuple[float, ...]:
    """The codes of a static variable, or () if it is a number: few whole numbers, each of them more than once."""
    found, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    is_code = 3 <= len(found) <= MOST_LEVELS and bool((found == np.round(found)).all()) and int(counts.min()) > 1
    return tuple(found.tolist()) if is_code else ()


def by_variable(events: Events) -> list[Array]:
    """The values of each variable."""
    order = np.argsort(events.variable, kind="stable")
    ends = np.cumsum(np.bincount(events.variable, minlength=len(events.variables)))
    return np.split(events.value[order], ends[:-1]) if len(ends) else []


def clock(events: Events) -> tuple[float, float]:
    """The median gap between steps and the median span of sequences; where there is none, the other one, or 1."""
    gaps = np.diff(events.time)
    inside = np.ones(len(gaps), bool)
    borders = events.offset[1:-1]
    inside[borders[(borders > 0) & (borders <= len(gaps))] - 1] = False
    gaps = gaps[inside]
    several = np.diff(events.offset) > 1
    spans = (
        (events.time[events.offset[1:][several] - 1] - events.time[events.offset[:-1][several]]) if several.any() else gaps[:0]
    )
    span = float(np.median(spans)) if len(spans) else 1.0
    gap = float(np.median(gaps)) if len(gaps) else span
    return gap, max(span, gap)
