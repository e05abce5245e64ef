"""A table in parts of whole sequences, which fit into memory one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import check_rounding, offsets, runs
from phased.estimator.settings import Settings
from phased.estimator.tables.formats import shown
from phased.estimator.tables.times import Times, read_clock
from phased.estimator.units import in_unit

ROW, SEQUENCE, VARIABLE = "(row)", "(sequence)", "(variable)"  # columns that are added to a table
CELLS = 2**22  # of a part with several sequences


@dataclass(frozen=True)
class Opened:
    """A table after its survey: columns, ids and variables are known.

    Args:
        how: settings with which it is read.
        like: settings of the table read before, or None.
        ids: in the order of their first appearance.
        lengths: number of rows of each id.
        names: of the variables.
        texts: variables with cells of text.
        time: its first filled cell of times, (1,) or (0,).
        frames: yields the rows of one sequence after another, in the columns ROW, SEQUENCE, time, and either VARIABLE and value
            or the variables of a wide table.
        row: words for a row, by its number in the table.
    """

    how: Settings
    like: Settings | None
    ids: NDArray[Any]
    lengths: NDArray[np.int64]
    names: list[str]
    texts: frozenset[str]
    time: pl.Series
    frames: Callable[[], Iterable[pl.DataFrame]]
    row: Callable[[int], str]

    @property
    def wide(self) -> bool:
        """Whether each variable is a column."""
        return "value" not in self.how.columns

    def parts(self) -> Iterator[Part]:
        """The rows of some sequences at a time, in the order of the ids."""
        offset, begin = offsets(self.lengths), 0
        for frame in self.frames():
            end = int(np.searchsorted(offset, offset[begin] + len(frame)))
            for first, last in runs(offset[begin : end + 1], max(CELLS // frame.width, 1)):
                rows = slice(*(offset[begin + first : begin + last + 1 : last - first] - offset[begin]).tolist())
                yield Part(self, frame[rows], begin + first, last - first)
            begin = end

    def find(self, row: int) -> tuple[Part, int]:
        """Return the part with this row of the table, and the place of the row in the part."""
        found = ((part, part.frame[ROW].index_of(row)) for part in self.parts())
        return next((part, place) for part, place in found if place is not None)


@dataclass(frozen=True)
class Part:
    """The rows of the sequences `first` to `first + count` of a table."""

    table: Opened
    frame: pl.DataFrame
    first: int
    count: int

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of these sequences."""
        return self.table.ids[self.first : self.first + self.count]

    @cached_property
    def sequence(self) -> NDArray[np.int32]:
        """Number of the sequence of each row, from 0 in each part."""
        return (self.frame[SEQUENCE].to_numpy() - np.uint32(self.first)).astype(np.int32)

    def times(self) -> Times:
        """The time of each row."""
        column = self.frame[self.table.how.columns["time"]]
        if column.dtype.is_float() and column.dtype != pl.Float64:
            time = column.fill_null(float("nan")).to_numpy()
            finite = np.flatnonzero(np.isfinite(time))
            order = finite[np.lexsort((time[finite], self.sequence[finite]))]
            check_rounding(time[order], self.sequence[order], lambda place: f"at {self.where(int(order[place]))}")
        return read_clock(column, self.where, self.table.how.unit, first=self.table.time)

    def origin(self, times: Times, used: NDArray[np.bool_]) -> NDArray[np.datetime64] | None:
        """Return the date of the first used row of each sequence, NaT without one, or None for numbers."""
        if times.clock == "number":
            return None
        never = np.iinfo(np.int64).max
        origin = np.full(self.count, never)
        for mask in (used & times.known, times.known):  # a sequence without used rows counts from any
            open_ = mask & (origin[self.sequence] == never)
            np.minimum.at(origin, self.sequence[open_], times.ticks[open_])
        dates = origin.astype("datetime64[us]")
        dates[origin == never] = np.datetime64("NaT")
        return dates

    def since(self, origin: NDArray[np.datetime64] | None, times: Times) -> NDArray[np.float64]:
        """Return the time of each row in the unit. Dates count from the origin of their sequence."""
        if origin is None:
            return times.ticks
        start = np.where(np.isnat(origin), 0, origin.astype(np.int64))
        return in_unit(times.ticks - start[self.sequence], times.unit)

    def where(self, place: int, variable: str | None = None) -> str:
        """id, time, variable and row of a row, for a message."""
        if variable is None and not self.table.wide:
            code = self.frame[VARIABLE][place]
            variable = self.table.names[code] if code >= 0 else None
        named = "" if variable is None else f", variable {variable!r}"
        time = shown(self.frame[self.table.how.columns["time"]], place)
        row = self.table.row(self.frame[ROW][place])
        return f"id {self.ids[self.sequence[place]].item()!r}, time {time}{named} ({row})"

    def bad_value(self, place: int, variable: str, cell: object) -> ValueError:
        """The error about a value that is no finite number."""
        return ValueError(
            f"a value must be a finite number, got {cell!r} at {self.where(place, variable)}. Leave a missing value empty, "
            f"write 36,6 as 36.6, encode text as numbers (one variable of 0 and 1 per category), or leave the variable out "
            f"(drop: {variable!r})."
        )

    def no_time(self, place: int, variable: str) -> ValueError:
        """The error about a row with a missing or infinite time."""
        cure = ", or name the variable as static if it is known from the start" if self.table.like is None else ""
        time = shown(self.frame[self.table.how.columns["time"]], place)
        return ValueError(
            f"each measurement must have a finite time, got {time} at {self.where(place, variable)}. Remove the row{cure}."
        )
