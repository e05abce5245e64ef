"""Units of time: their names, and dates as numbers in a unit."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNITS: dict[str, tuple[Any, ...]] = {
    "ns": (1e-3, "nanosecond", "nanoseconds"),
    "us": (1, "µs", "microsecond", "microseconds"),
    "ms": (1_000, "millisecond", "milliseconds"),
    "s": (1_000_000, "sec", "secs", "second", "seconds"),
    "min": (60_000_000, "mins", "minute", "minutes"),
    "h": (3_600_000_000, "hr", "hrs", "hour", "hours"),
    "d": (86_400_000_000, "day", "days"),
    "w": (604_800_000_000, "week", "weeks"),
}
"""Microseconds in each unit, and its other names."""
MICROSECONDS: dict[str, float] = {unit: size for unit, (size, *_) in UNITS.items()}
NAMES = {name: unit for unit, (_, *names) in UNITS.items() for name in (unit, *names)}
FIRST, LAST = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "datetime64[us]").astype(np.int64).tolist()
"""Dates that Python and CSV files can have, in microseconds since 1970."""


def unit_name(unit: str) -> str:
    """Return the short name of a unit: "hours" is "h". A name that is not known stays as it is: numbers may be in any unit."""
    if not isinstance(unit, str):
        raise TypeError(f"unit must be text such as 'h', got {unit!r} of type {type(unit).__name__}.")
    return NAMES.get(unit.strip().lower(), unit.strip())


def microseconds(unit: str) -> float:
    """Microseconds in a unit; a ValueError if it is none of time."""
    if unit not in MICROSECONDS:
        known = ", ".join(MICROSECONDS)
        raise ValueError(f"unit must be one of {known} where times are dates, clock times or durations, got {unit!r}.")
    return MICROSECONDS[unit]


def ticks_of(dates: NDArray[np.datetime64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return dates in microseconds since 1970, and which of them are finer than a microsecond or beyond these years."""
    ticks = dates.astype("datetime64[us]")
    number = ticks.astype(np.int64)
    return number, (ticks.astype(dates.dtype) != dates) | (number > LAST) | (number < FIRST)


def in_unit(duration: NDArray[Any], unit: str, resolution: str = "us") -> NDArray[np.float64]:
    """Durations as numbers in a unit: integers in a resolution, or timedelta64."""
    count = duration.astype("timedelta64[us]").astype(np.int64) if duration.dtype.kind == "m" else duration
    return np.asarray(count / (microseconds(unit) / MICROSECONDS[resolution]), np.float64)


def in_times(length: float | str, unit: str) -> float:
    """Return a length of time, such as "24h" or a number, in the unit of the times. Raises ValueError if it has another."""
    found = re.fullmatch(r"\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)\s*", str(length))
    number = float(found[1]) if found else math.nan
    given = unit_name(found[2]) if found else ""
    if not 0 < number < math.inf:
        raise ValueError(f"horizon must be a length of time above 0, such as 24h, got {length!r}.")
    if given in ("", unit):
        return number
    if not {given, unit} <= MICROSECONDS.keys():
        known = f"in {unit!r}, the unit of the times" if unit else "a number, because the unit of the times is not known"
        raise ValueError(f"horizon must be {known}, got {length!r}.")
    return number * MICROSECONDS[given] / MICROSECONDS[unit]
