"""A table whose rows have an id and a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import COARSE, too_coarse
from phased.estimator.settings import Clock
from phased.estimator.tables.columns import Columns
from phased.estimator.tables.keys import encode, id_series
from phased.estimator.tables.naming import Rows
from phased.estimator.tables.source import Source
from phased.estimator.tables.times import Times, Unreadable, read_times
from phased.estimator.units import in_unit

FILE = "(file)"  # the column of ids where every file is a sequence


@dataclass(frozen=True)
class Opened:
    """A table in memory, with the sequence and the time of each row.

    Args:
        columns: the role of its columns.
        rows: the table, for errors.
        ids: in the order of their first appearance.
        sequence: the number of each row's id.
        times: of each row.
    """

    columns: Columns
    rows: Rows
    ids: NDArray[Any]
    sequence: NDArray[np.int64]
    times: Times

    def column(self, role: str) -> pl.Series:
        """The column of a role that this table has."""
        return self.rows.table.frame[self.columns.names[role]]

    def clock(self, used: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.datetime64] | None]:
        """The time of each row in the unit; for dates since the first used row of its sequence, and that date."""
        if self.times.clock == "number":
            return self.times.ticks, None
        never = np.iinfo(np.int64).max
        origin = np.full(len(self.ids), never)
        for mask in (used & self.times.known, self.times.known):  # a sequence without used rows counts from any
            open_ = mask & (origin[self.sequence] == never)
            np.minimum.at(origin, self.sequence[open_], self.times.ticks[open_])
        dates = origin.astype("datetime64[us]")
        dates[origin == never] = np.datetime64("NaT")
        return in_unit(self.times.ticks - np.where(origin == never, 0, origin)[self.sequence], self.times.unit), dates


def open_table(
    source: Source, columns: Columns, unit: str | None, clock: Clock | None = None, text: Collection[str] = ()
) -> Opened:
    """The rows of a source with their ids and times.

    Args:
        source: a table.
        columns: the role of its columns.
        unit: of the times, None if not given.
        clock: the kind of times of the table read before; None: any.
        text: the variables that were text in the table read before.
    """
    table = source.load(columns.kinds(text), FILE)
    if not len(table.frame):
        raise ValueError(f"{source.name} must have at least one row, and has none.")
    rows = Rows(table, FILE if columns.id is None else columns.id, columns.time, columns.variable)
    ids, sequence = encode(read_ids(rows))
    times = read_clock(rows, unit, clock)
    _check_rounding(rows, sequence)
    return Opened(columns, rows, ids, sequence, times)


def _check_rounding(rows: Rows, sequence: NDArray[np.int64]) -> None:
    """Raise a ValueError if times are float32, and gaps of a sequence are no larger than its rounding."""
    assert rows.time is not None
    column = rows.table.frame[rows.time]
    if not column.dtype.is_float() or column.dtype == pl.Float64:
        return
    time = column.fill_null(float("nan")).to_numpy()
    finite = np.flatnonzero(np.isfinite(time))
    order = finite[np.lexsort((time[finite], sequence[finite]))]
    place = too_coarse(time[order], sequence[order])
    if place is not None:
        before, after = time[order[place - 1 : place + 1]]
        raise ValueError(
            f"times must be exact enough for their gaps, got {before:.10g} and then {after:.10g}, two "
            f"neighbouring numbers of {time.dtype}, at {rows.where(int(order[place]))}. {COARSE.format(dtype=time.dtype)}"
        )


def read_ids(rows: Rows) -> pl.Series:
    """The id of each row; a ValueError if one has none."""
    column = rows.ids()
    absent = column.is_null() | (column.is_nan().fill_null(False) if column.dtype.is_float() else False)
    ids = column if absent.any() else id_series(column, rows.table.row)
    if ids.dtype == pl.String:
        absent |= ids == ""
    if absent.any():
        row = absent.arg_max()
        raise ValueError(f"each row must have an id, and {rows.table.row(int(row or 0))} has none in the column {rows.id!r}.")
    return ids


def read_clock(rows: Rows, unit: str | None, clock: Clock | None) -> Times:
    """The time of each row; a ValueError that names the first that cannot be read."""
    assert rows.time is not None
    try:
        times = read_times(rows.table.frame[rows.time], unit)
    except Unreadable as error:
        raise ValueError(f"{error.why} At {rows.where(error.row)}.") from error
    if clock is not None and times.known.any() and times.clock != clock:
        words = {"number": "numbers", "date": "dates"}
        row = int(np.flatnonzero(times.known)[0])
        raise ValueError(
            f"times must be {words[clock]}, as in the table read before, got {words[times.clock]} at {rows.where(row)}."
        )
    return times


def no_time(opened: Opened, row: int, variable: str | None = None) -> ValueError:
    """The error about a row whose time is missing or not finite."""
    return ValueError(
        f"each measurement must have a finite time, got {opened.rows.cell(opened.columns.time, row)} at "
        f"{opened.rows.where(row, variable)}. Remove the row, or name the variable in static= if it is known from the start."
    )


def bad_value(opened: Opened, row: int, variable: str, cell: object) -> ValueError:
    """The error about a value that is no finite number."""
    return ValueError(
        f"a value must be a finite number, got {cell!r} at {opened.rows.where(row, variable)}. Leave a missing value empty, "
        f"write 36,6 as 36.6, encode text as numbers (one variable of 0 and 1 per category), or leave the variable out: "
        f"drop=[{variable!r}]."
    )


def unknown_variables(opened: Opened, row: int, variable: str, names: str) -> ValueError:
    """The error about variables that the table read before does not have."""
    return ValueError(
        f"variables must be those of the table read before, got {names}, first at {opened.rows.where(row, variable)}. "
        f"Leave them out: drop=[{names}]."
    )
