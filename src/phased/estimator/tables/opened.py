"""A table whose rows have an id and a time, and the errors about its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import COARSE, too_coarse
from phased.estimator.settings import EVERY, Settings, listed
from phased.estimator.tables.cells import encode, is_text, read_texts
from phased.estimator.tables.columns import Columns
from phased.estimator.tables.source import Source, Table
from phased.estimator.tables.times import Times, read_clock
from phased.estimator.units import in_unit

FILE = "(file)"  # the column of ids where every file is a sequence


@dataclass(frozen=True)
class Opened:
    """A table in memory, with the sequence and the time of each row.

    Args:
        columns: the role of its columns.
        table: its rows.
        how: it is read.
        like: how the table before was read, or None.
        ids: in the order of their first appearance.
        sequence: the number of each row's id.
        times: of each row.
    """

    columns: Columns
    table: Table
    how: Settings
    like: Settings | None
    ids: NDArray[Any]
    sequence: NDArray[np.int64]
    times: Times

    def column(self, role: str) -> pl.Series:
        """The column of a role that this table has."""
        return self.table.frame[self.columns.names[role]]

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

    def names(self, present: Sequence[str], row_of: Callable[[str], int] = lambda name: 0) -> list[str]:
        """The variables in order: these, or all of the table read before. `row_of` returns a row with a variable."""
        if self.like is None:
            return list(present)
        known = dict.fromkeys(self.like.inputs)
        unknown = [name for name in present if name not in known]
        if unknown:
            names, where = listed(unknown), self.table.where(row_of(unknown[0]), unknown[0])
            raise ValueError(
                f"variables must be those of the table read before, got {names}, first at {where}. "
                f"Leave them out (drop: {names})."
            )
        return list(known)

    def check_names(self, present: Sequence[str]) -> None:
        """Raise a ValueError if a name in an argument does not occur; a table read like another may lack variables."""
        there = {EVERY, *present}
        arguments = {"static": self.how.statics or (), "missing": self.how.missing, "drop": self.how.drop}
        for argument, names in arguments.items() if self.like is None else ():
            for name in names:
                if name not in there:
                    raise ValueError(
                        f"{argument} must name variables of {self.table.name}, got {name!r}. It has {listed(present, 50)}."
                    )

    def static(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each of the names was given as static."""
        static = {*(self.how.statics or ())}
        return np.array([name in static for name in names], np.bool_)

    def texts(self, name: str, column: pl.Series, bad: int) -> tuple[NDArray[np.float64], list[str]] | None:
        """The cells of a text variable as indices into its texts, and these; None for numbers, with `bad` cells that are none."""
        if is_text(column, bad) if self.like is None else name in self.like.levels:
            return read_texts(column, self.how.marks(name))
        return None

    def bad_value(self, row: int, variable: str, cell: object) -> ValueError:
        """The error about a value that is no finite number."""
        return ValueError(
            f"a value must be a finite number, got {cell!r} at {self.table.where(row, variable)}. Leave a missing value empty, "
            f"write 36,6 as 36.6, encode text as numbers (one variable of 0 and 1 per category), or leave the variable out "
            f"(drop: {variable!r})."
        )

    def no_time(self, row: int, variable: str | None = None) -> ValueError:
        """The error about a row whose time is missing or not finite."""
        cure = ", or name the variable as static if it is known from the start" if self.like is None else ""
        return ValueError(
            f"each measurement must have a finite time, got {self.table.cell(self.columns.time, row)} at "
            f"{self.table.where(row, variable)}. Remove the row{cure}."
        )


def open_table(source: Source, columns: Columns, how: Settings, like: Settings | None) -> Opened:
    """The rows of a source with their ids and times."""
    id = FILE if columns.id is None else columns.id
    table = source.load(columns.kinds(() if like is None else like.levels), id, columns.time, columns.variable)
    if not len(table.frame):
        raise ValueError(f"{source.name} must have at least one row, and has none.")
    ids, sequence = encode(table.ids())
    times = read_clock(table, how.unit, None if like is None else like.clock)
    _check_rounding(table, columns.time, sequence)
    if like is not None and times.unit != like.unit:
        raise ValueError(f"times must be in the unit {like.unit!r}, as in the table read before, got {times.unit!r}.")
    return Opened(columns, table, how, like, ids, sequence, times)


def _check_rounding(table: Table, name: str, sequence: NDArray[np.int64]) -> None:
    """Raise a ValueError if times are float32, and gaps of a sequence are no larger than its rounding."""
    column = table.frame[name]
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
            f"neighbouring numbers of {time.dtype}, at {table.where(int(order[place]))}. {COARSE.format(dtype=time.dtype)}"
        )
