"""Description of Events: a table of numbers, and what may be wrong, such as numbers that stand for a missing value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phased.estimator.units import microseconds

if TYPE_CHECKING:
    from phased.estimator.events import Events

QUARTILES = (0, 25, 50, 75, 100)
HEADINGS = ("min", "25 %", "median", "75 %", "max")
FAR = 100  # times the span: times that begin this far from 0 count from a date, not from a start
NEGATIVE = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0)
POSITIVE = (99.0, 999.0, 9999.0, 99999.0, 999999.0)
OFTEN = 2  # a sentinel occurs more than once
APART = 3.0  # a number this many ranges of the others away from them is no measurement

Five = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class Column:
    """A variable or static: the share of steps or sequences that have it, and quartiles of its values."""

    name: str
    observed: float
    quartiles: Five


@dataclass(frozen=True)
class Description:
    """What Events contain. `print` shows it.

    Args:
        sequences: number of sequences.
        steps: number of steps.
        measurements: number of measurements.
        unit: of the times.
        lengths: quartiles of the steps a sequence, from the minimum to the maximum.
        gaps: quartiles of the time between a step and the next.
        spans: quartiles of the time from the first step to the last.
        variables: what is measured over time; `observed` is a share of the steps.
        statics: what is known once; `observed` is a share of the sequences.
        counts: what happened to rows of the table on reading.
        dates: the first and the last date, or None.
        warnings: what may be wrong, a sentence each.
    """

    sequences: int
    steps: int
    measurements: int
    unit: str
    lengths: Five
    gaps: Five
    spans: Five
    variables: tuple[Column, ...]
    statics: tuple[Column, ...]
    counts: dict[str, int]
    dates: tuple[str, str] | None
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{_many(self.sequences, 'sequence')}, {_many(self.steps, 'step')}, {_many(self.measurements, 'measurement')}"]
        if self.dates is not None:
            lines.append(f"from {self.dates[0]} to {self.dates[1]}; times count from each sequence's first event")
        if self.counts.get("merged"):
            lines.append(f"{_many(self.counts['merged'], 'value')} merged into others of the same time and variable")
        if self.counts.get("sentinels"):
            lines.append(f"{_many(self.counts['sentinels'], 'value')} read as missing, as missing= says")
        unit = f" ({self.unit})" if self.unit else ""
        lines.append(_row("", HEADINGS))
        lines += [
            _row("steps a sequence", map(_number, self.lengths)),
            _row(f"gap{unit}", map(_number, self.gaps)),
            _row(f"span{unit}", map(_number, self.spans)),
        ]
        for title, columns in (("variable", self.variables), ("static", self.statics)):
            if columns:
                lines += ["", _row(title, ("observed", *HEADINGS))]
                lines += [_row(each.name, (_share(each.observed), *map(_number, each.quartiles))) for each in columns]
        if self.warnings:
            lines += ["", *(f"warning: {warning}" for warning in self.warnings)]
        return "\n".join(lines)


def describe(events: Events) -> Description:
    """The description of Events."""
    some, measured = events.lengths > 0, events.by_variable(events.value)
    first, spans = events.time[events.offset[:-1][some]], events.spans()[some]
    by_static = [column[~np.isnan(column)] for column in events.static.T]
    variables = tuple(_column(*each, len(events.time)) for each in zip(events.variables, measured, strict=True))
    statics = tuple(_column(*each, len(events)) for each in zip(events.statics, by_static, strict=True))
    warnings, indicators = _about_times(events, first, spans), events.settings.indicators
    for name, values in zip((*events.variables, *events.statics), (*measured, *by_static), strict=True):
        warnings += _about_values(name, values) if name not in indicators else []
    return Description(
        sequences=len(events),
        steps=len(events.time),
        measurements=len(events.value),
        unit=events.unit,
        lengths=_quartiles(events.lengths),
        gaps=_quartiles(events.gaps()),
        spans=_quartiles(spans),
        variables=variables,
        statics=statics,
        counts=dict(events.counts),
        dates=_dates(events),
        warnings=tuple(warnings),
    )


def _about_times(events: Events, first: NDArray[np.float64], spans: NDArray[np.float64]) -> list[str]:
    """Warnings about times and sequences."""
    warnings = []
    bare = int((events.entry[events.offset[1:]] == events.entry[events.offset[:-1]]).sum())
    if bare:
        warnings.append(f"{bare} of {len(events)} sequences have no measurement over time.")
    span = float(np.median(spans)) if len(first) else 0.0
    if len(first) and span > 0 and float(np.abs(first).min()) > FAR * span:
        warnings.append(
            f"times begin at {_number(float(first.min()))} or later, far from 0, with a median span of {_number(span)}. "
            "If they count from a date, subtract the start of each sequence."
        )
    if len(first) and not events.unit:
        warnings.append("the unit of the times is not known. Pass unit=, so that new data can be compared with it.")
    return warnings


def _about_values(name: str, values: NDArray[np.float64]) -> list[str]:
    """Warnings about the values of one variable."""
    if not len(values):
        return [f"{name!r} is never measured. Leave it out: drop=[{name!r}]."]
    return [
        f"{name!r} is {_number(number)} in {count} of {_many(len(values), 'value')}, outside the rest "
        f"({_number(low)} to {_number(high)}). If it stands for a missing value, pass missing={{{name!r}: {_number(number)}}}."
        for number, count, low, high in suspicious(values)
    ]


def _dates(events: Events) -> tuple[str, str] | None:
    """The first and the last date, to the minute."""
    if events.origin is None or not len(events.time):
        return None
    length = (events.time * microseconds(events.unit)).round().astype("timedelta64[us]")
    dates = events.origin[events.sequence] + length
    dates = dates[~np.isnat(dates)].astype("datetime64[m]")
    return (str(dates.min()).replace("T", " "), str(dates.max()).replace("T", " ")) if len(dates) else None


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells)


def _column(name: str, values: NDArray[np.float64], most: int) -> Column:
    return Column(name, len(values) / most if most else 0.0, _quartiles(values))


def _quartiles(values: NDArray[np.float64] | NDArray[np.int64]) -> Five:
    """Minimum, quartiles and maximum; NaN without values."""
    if not len(values):
        return (np.nan,) * 5
    low, lower, middle, upper, high = np.percentile(values, QUARTILES).tolist()
    return low, lower, middle, upper, high


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}" if abs(value) < 1e5 else f"{value:.6g}"


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 or share == 0 else f"{share:.2%}".replace("%", " %")


def suspicious(values: NDArray[np.float64]) -> list[tuple[float, int, float, float]]:
    """Numbers that look like sentinels: each with its count, and the range of the other values.

    A usual sentinel is reported if it is below or above all other values and either far from them, or the only negative number.

    Example:
        >>> from phased.estimator.describe import suspicious
        >>> import numpy as np
        >>> suspicious(np.array([170.0, 182.0, -1.0, 165.0, -1.0]))
        [(-1.0, 2, 165.0, 182.0)]
    """
    found = []
    for number in (*NEGATIVE, *POSITIVE):
        is_it = values == number
        count = int(is_it.sum())
        if count < OFTEN or count == len(values):
            continue
        rest = values[~is_it & ~np.isin(values, NEGATIVE if number < 0 else POSITIVE)]
        if not len(rest):
            continue
        low, high = float(rest.min()), float(rest.max())
        if low == high == -number:  # -1 and 1 are two classes
            continue
        distance = low - number if number < 0 else number - high
        alone = number < 0 <= low and (low > 0 or count < len(values) / 2)
        if distance > APART * (high - low) or (distance > 0 and alone):
            found.append((number, count, low, high))
    return found
