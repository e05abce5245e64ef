"""The column of times: numbers, dates, durations, clock times, as such or as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.clock import EXACT_FLOAT64
from phased.estimator.ragged import INEXACT, ROUND
from phased.estimator.settings import Clock
from phased.estimator.tables.cells import filled, numbers_of
from phased.estimator.units import in_unit, ticks_of

DEFAULT_UNIT = "h"  # of dates, durations and clock times
YEAR = r"^\d{4}[-/]"  # in full: 03/04/24 may be three dates
OFFSET = r":.*[Zz+-]"  # from UTC, after the time of day
CLOCK = r"^\d{1,9}:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?$"
TOO_FINE = r":\d{2}\.\d{6}\d*[1-9]"  # below a microsecond
DATES = tuple(
    f"%Y{mark}%m{mark}%d{day}{zone}"
    for mark in "-/"
    for day in (" %H:%M:%S%.f", "T%H:%M:%S%.f", " %H:%M", "T%H:%M", "")
    for zone in ("", "Z", "%#z")
    if day or not zone
)


@dataclass(frozen=True)
class Times:
    """Times of rows: numbers in a unit, or dates in microseconds since 1970 UTC.

    Args:
        ticks: float64, or int64 for dates. Where `known` is False, any number.
        known: False where the time is missing or not finite.
        clock: "number" or "date".
        unit: of the numbers, or for the dates to be converted to.
        offset: whether dates have an offset from UTC, or None for numbers.
    """

    ticks: NDArray[Any]
    known: NDArray[np.bool_]
    clock: Clock
    unit: str
    offset: bool | None = None


class Unreadable(ValueError):
    """A time that cannot be read, with its row and the reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(row, why)
        self.row = row
        self.why = why


def read_clock(
    column: pl.Series, where: Callable[[int], str], unit: str, clock: Clock | None = None, first: pl.Series | None = None
) -> Times:
    """Return the time of each row.

    Args:
        column: of times.
        where: words for a row.
        unit: to convert dates, durations and clock times to.
        clock: of the table read before.
        first: a cell before the column, which says how text is read.

    Raises:
        ValueError: a time cannot be read, or is of another kind than `clock`.
    """
    head = column[:0] if first is None or column.dtype != pl.String else first
    before = len(head)
    try:
        times = read_times(pl.concat([head, column]) if before else column, unit)
    except Unreadable as error:
        raise ValueError(f"{error.why} At {where(error.row - before)}.") from error
    if clock is not None and times.known.any() and times.clock != clock:
        words = {"number": "numbers", "date": "dates"}
        row = where(int(np.flatnonzero(times.known)[0]))
        raise ValueError(f"times must be {words[clock]}, as in the table read before, got {words[times.clock]} at {row}.")
    return replace(times, ticks=times.ticks[before:], known=times.known[before:])


def read_times(column: pl.Series, unit: str) -> Times:
    """Return the times of a column. Raises `Unreadable` with the first row that cannot be read."""
    dtype = column.dtype
    if dtype in (pl.Categorical, pl.Enum):
        column, dtype = column.cast(pl.String), pl.String()
    if dtype == pl.String:
        return _from_text(column, unit)
    if dtype.is_numeric():
        return _numbers(column, unit)
    if dtype in (pl.Datetime, pl.Date):
        return _dates(column, unit or DEFAULT_UNIT, getattr(dtype, "time_zone", None) is not None)
    if dtype in (pl.Duration, pl.Time):
        return _durations(column.to_physical(), unit or DEFAULT_UNIT, getattr(dtype, "time_unit", "ns"))
    if dtype == pl.Null:
        return Times(np.zeros(len(column)), np.zeros(len(column), np.bool_), "number", unit)
    raise Unreadable(0, f"times must be numbers or dates, got a column of type {dtype}.")


def _numbers(column: pl.Series, unit: str) -> Times:
    ticks = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    known = np.isfinite(ticks)
    exact = column.cast(pl.Int64, strict=False).fill_null(EXACT_FLOAT64 + 1).to_numpy() if column.dtype.is_integer() else ticks
    far = np.flatnonzero(known & ((exact > EXACT_FLOAT64) | (exact < -EXACT_FLOAT64)))
    if len(far):
        why = f"times must be at most 2**53 to be exact, got {column[int(far[0])]}. Subtract a start, or pass them as dates."
        raise Unreadable(int(far[0]), why)
    return Times(ticks, known, "number", unit)


def _dates(column: pl.Series, unit: str, offset: bool) -> Times:
    resolution = getattr(column.dtype, "time_unit", None) or "D"
    known = column.is_not_null().to_numpy()
    stored = column.to_physical().fill_null(0).to_numpy()  # of a column with a time zone: UTC
    ticks, wrong = ticks_of(stored.astype(f"datetime64[{resolution}]"))
    if (wrong & known).any():
        row = int(np.flatnonzero(wrong & known)[0])
        raise Unreadable(row, f"{INEXACT}, got {stored[row]} {resolution} since 1970. {ROUND}")
    return Times(ticks, known, "date", unit, offset)


def _durations(ticks: pl.Series, unit: str, resolution: str = "us") -> Times:
    return Times(in_unit(ticks.fill_null(0).to_numpy(), unit, resolution), ticks.is_not_null().to_numpy(), "number", unit)


def _from_text(column: pl.Series, unit: str) -> Times:
    """Text in which all cells are numbers, all are clock times, or all are dates."""
    distinct = column.unique(maintain_order=True).drop_nulls()
    if 2 * len(distinct) > len(column):
        return _from_cells(column, unit)
    try:  # most times occur in several rows
        times = _from_cells(distinct.extend_constant(None, 1), unit)
    except Unreadable as error:
        raise Unreadable(int((column == distinct[error.row]).arg_max() or 0), error.why) from error
    place = numbers_of(column, distinct)  # -1, the place of the null, for an empty cell
    return replace(times, ticks=times.ticks[place], known=times.known[place])


def _from_cells(column: pl.Series, unit: str) -> Times:
    text = filled(column)
    first, readers = text.drop_nulls()[:1], (_number, _clock, _date)
    reader = next((reader for reader in readers if reader(first).null_count() == 0), _number)
    made = reader(text)
    unread = np.flatnonzero((made.is_null() & text.is_not_null()).to_numpy())
    if len(unread):
        row = int(unread[0])
        if all(reader(text[row : row + 1]).null_count() for reader in readers):
            raise Unreadable(row, f"a time must be a number, hh:mm or a date such as 2024-03-01 14:30, got {column[row]!r}.")
        raise Unreadable(row, f"times must be all numbers, all hh:mm or all dates, got {column[row]!r} after {first[0]!r}.")
    if reader is _number:
        return _numbers(made, unit)
    if reader is _date:
        offset = _check_offsets(column, text)
        fine = text.str.contains(TOO_FINE).fill_null(False)
        if fine.any():
            raise Unreadable(int(fine.arg_max() or 0), f"{INEXACT}, got {column[int(fine.arg_max() or 0)]!r}. {ROUND}")
        return _dates(made, unit or DEFAULT_UNIT, offset)
    return _durations(made, unit or DEFAULT_UNIT)


def _check_offsets(column: pl.Series, text: pl.Series) -> bool:
    """Return whether dates have an offset from UTC. `Unreadable` if others are local times of an unknown place."""
    has = text.str.contains(OFFSET)
    if has.n_unique() - (has.null_count() > 0) > 1:
        first = has.is_not_null().arg_max() or 0
        row = int((has != has[first]).arg_max() or 0)
        raise Unreadable(
            row,
            f"dates must all have an offset from UTC, such as Z or +02:00, or none, got {column[row]!r} after {column[first]!r}. "
            "Give all of them in one way.",
        )
    return bool(has.any())


def _number(text: pl.Series) -> pl.Series:
    """Return text as numbers, other text as null."""
    return text.cast(pl.Float64, strict=False)


def _clock(text: pl.Series) -> pl.Series:
    """Return hh:mm or hh:mm:ss in microseconds, other text as null. Hours may be more than 24."""
    frame = text.to_frame("text").select(pl.when(pl.col("text").str.contains(CLOCK)).then(pl.col("text")).str.split_exact(":", 2))
    parts = frame.to_series().struct.unnest().with_columns(pl.all().cast(pl.Float64, strict=False))
    hours, minutes, seconds = (parts.to_series(place) for place in range(3))
    return ((hours * 3600 + minutes * 60 + seconds.fill_null(0)) * 1e6).round().cast(pl.Int64)


def _date(text: pl.Series) -> pl.Series:
    """Return ISO 8601 dates, with or without time of day and offset, in UTC. Other text becomes null."""
    text = text.set(~text.str.contains(YEAR), None)
    first = text.drop_nulls()[:1]
    forms = sorted(DATES, key=lambda form: _date_of(first, form).null_count())  # the form of the first cell is tried first
    made = _date_of(text, forms[0])
    for form in forms[1:]:
        if made.null_count() == text.null_count():
            break
        made = made.fill_null(_date_of(text, form))
    return made


def _date_of(text: pl.Series, form: str) -> pl.Series:
    """Dates in one form, as UTC."""
    if form.endswith("z"):
        return text.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False).dt.replace_time_zone(None)
    return text.str.to_datetime(form, time_unit="us", strict=False)
