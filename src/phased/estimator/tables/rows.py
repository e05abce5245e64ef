"""Measurements sorted by sequence, time and variable, merged, and split into static and other variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.settings import Merge


@dataclass(frozen=True)
class Measurements:
    """Rows with one value each: numbers of their sequence and variable, time, value, and row in the table."""

    sequence: NDArray[np.int64]
    time: NDArray[np.float64]
    variable: NDArray[np.int64]
    value: NDArray[np.float64]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: NDArray[Any] | slice) -> Measurements:
        return Measurements(self.sequence[index], self.time[index], self.variable[index], self.value[index], self.row[index])

    def split(self, apart: NDArray[np.bool_]) -> tuple[Measurements, Measurements]:
        """The rows of some variables, and the others. `apart` has a bool per variable."""
        if not apart.any():
            return self[:0], self
        chosen = apart[self.variable]
        return self[chosen], self[~chosen]

    def joined(self, other: Measurements) -> Measurements:
        """The rows of both."""
        names = ("sequence", "time", "variable", "value", "row")
        return Measurements(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


class Steps(NamedTuple):
    """Steps in order: number of the sequence, time, row in the table or -1, and number of measurements."""

    sequence: NDArray[np.int64]
    time: NDArray[np.float64]
    row: NDArray[np.int64]
    measured: NDArray[np.int64]


@dataclass(frozen=True)
class Sequences:
    """Sequences of a table.

    Args:
        variables: names of variables measured over time.
        statics: names of variables known once per sequence.
        static: (n, statics), NaN where unknown.
        steps: of all sequences.
        variable: of each measurement, increasing within a step.
        value: of each measurement.
    """

    variables: tuple[str, ...]
    statics: tuple[str, ...]
    static: NDArray[np.float64]
    steps: Steps
    variable: NDArray[Any]
    value: NDArray[np.float64]


def starts(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a row is the first of a run of rows with equal keys."""
    first = np.ones(len(keys[0]), np.bool_)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def is_sorted(*keys: NDArray[Any]) -> bool:
    """Whether rows are in the order of the first key, then the second, and so on."""
    tied = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return False
        tied &= key[1:] == key[:-1]
    return True


def ordered(rows: Measurements) -> Measurements:
    """Rows sorted by sequence, time, variable and row."""
    if is_sorted(rows.sequence, rows.time, rows.variable, rows.row):
        return rows
    made = _packed_order(rows)
    return rows[np.lexsort((rows.row, rows.variable, rows.time, rows.sequence))] if made is None else made


def _packed_order(rows: Measurements) -> Measurements | None:
    """Rows sorted by sequence, time, variable and row, by one integer that packs the first three into 64 bits.

    Sorting one integer is several times faster than sorting by three keys. None if too few bits are left for the time: times that
    differ by less than about 2**-40 of their range may be out of order then.
    """
    for_sequence, for_variable = int(rows.sequence.max()).bit_length(), int(rows.variable.max()).bit_length()
    for_time = min(63 - for_sequence - for_variable, 52)
    start, end = float(rows.time.min()), float(rows.time.max())
    if for_time < 16 or not np.isfinite(end - start):
        return None
    share = rows.time - start
    share *= (2**for_time - 1) / (end - start or 1.0)
    key = share.astype(np.int64)
    del share
    key |= rows.sequence << for_time
    key <<= for_variable
    key |= rows.variable
    place = pl.Series(key).arg_sort().to_numpy().astype(np.int64)
    key = key[place]
    row = place if np.array_equal(rows.row, np.arange(len(rows))) else rows.row[place]
    variable = key & ((1 << for_variable) - 1)
    key >>= for_variable + for_time
    made = Measurements(key, rows.time[place], variable, rows.value[place], row)
    if not is_sorted(made.sequence, made.time, made.variable):
        return None
    run = np.cumsum(starts(made.sequence, made.time, made.variable))
    return made if is_sorted(run, made.row) else made[np.lexsort((made.row, run))]


def merged(rows: Measurements, first: NDArray[np.bool_], how: Merge, text: NDArray[np.bool_]) -> Measurements:
    """Return one row for each run of rows.

    Args:
        rows: sorted, so that the rows of a run follow each other.
        first: whether a row begins a run.
        how: the value of a run of several.
        text: for each variable whether it is text, which has no mean: the last one counts unless the first is asked for.

    Returns:
        A row for each run. `row` is the number of the first row of the run in the table.
    """
    if first.all():
        return rows
    begin = np.flatnonzero(first)
    length = np.diff(begin, append=len(rows))
    run = np.repeat(np.arange(len(begin)), length)
    several = length[run] > 1  # the others stay as they are
    part = rows[several]
    run = run[several]
    in_order = part[np.lexsort((part.row, part.time, run))]
    cut = np.flatnonzero(starts(run))
    end = np.append(cut[1:], len(run)) - 1
    by_value = part.value[np.lexsort((part.value, run))]  # the order of rows does not change the last bit of a sum
    total = np.add.reduceat(by_value, cut)
    chosen = {
        "first": in_order.value[cut],
        "last": in_order.value[end],
        "min": by_value[cut],
        "max": by_value[end],
        "sum": total,
        "mean": total / (end - cut + 1),
    }
    value = rows.value[begin].copy()
    value[length > 1] = np.where(text[part.variable[cut]], chosen["first" if how == "first" else "last"], chosen[how])
    row = rows.row[begin].copy()
    row[length > 1] = in_order.row[cut]
    return Measurements(rows.sequence[begin], rows.time[begin], rows.variable[begin], value, row)


def at_first_time(rows: Measurements, variables: int) -> NDArray[np.bool_]:
    """Return a bool per variable of a long table: measured only at the first time of every sequence.

    A value that is measured once, but later, is not: at the first event it is not known yet. Nor is one with several values at
    that time. At least one sequence with the variable must have two times. Otherwise the variable may change.

    Args:
        rows: sorted by sequence, time, variable.
        variables: their number.
    """
    begin = np.flatnonzero(starts(rows.sequence))
    length = np.diff(begin, append=len(rows))
    at_first = rows.time == np.repeat(rows.time[begin], length)
    goes_on = np.repeat(rows.time[begin + length - 1] > rows.time[begin], length)
    number = np.bincount(rows.variable, minlength=variables)
    shown = np.bincount(rows.variable[goes_on], minlength=variables) > 0
    differs = ~starts(rows.sequence, rows.time, rows.variable) & starts(rows.value)
    shown &= np.bincount(rows.variable[differs], minlength=variables) == 0
    return np.asarray(shown & (np.bincount(rows.variable[at_first], minlength=variables) == number))


def constant(cells: NDArray[np.float64], steps: Measurements) -> NDArray[np.bool_]:
    """Return a bool per column of a wide table: constant in every sequence, and filled in all of its rows or only in the first.

    Args:
        cells: (rows, columns), NaN where a cell is empty.
        steps: the sequence and time of each row, sorted.
    """
    if not len(cells):
        return np.zeros(cells.shape[1], np.bool_)
    begin = np.flatnonzero(starts(steps.sequence))
    length = np.diff(begin, append=len(cells))[:, None]
    goes_on = (steps.time[begin + length[:, 0] - 1] > steps.time[begin])[:, None]
    filled = ~np.isnan(cells)
    count = np.add.reduceat(filled, begin, dtype=np.int64)
    same = np.fmin.reduceat(cells, begin) == np.fmax.reduceat(cells, begin)
    fits = (count == length) | ((count == 1) & filled[begin])
    return np.asarray(((count == 0) | (same & fits)).all(0) & ((count > 0) & goes_on).any(0))


def one_per_sequence(
    rows: Measurements, places: NDArray[np.int64], shape: tuple[int, int], how: Merge | None, text: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], Measurements]:
    """Return static values, NaN where unknown, and the first rows that contradict each other, empty with `how`.

    Args:
        rows: of static variables, in any order.
        places: the column of each variable.
        shape: (sequences, columns).
        how: one value from several.
        text: for each variable whether it is text.
    """
    cell = rows.sequence * shape[1] + places[rows.variable]
    low, high = np.full(shape, np.inf).ravel(), np.full(shape, -np.inf).ravel()
    np.minimum.at(low, cell, rows.value)
    np.maximum.at(high, cell, rows.value)
    values = np.where(low > high, np.nan, low)
    several = low < high  # the same value again is no contradiction
    rows = rows[several[cell]]
    rows = rows[np.lexsort((rows.row, rows.variable, rows.sequence))]
    if how is not None and len(rows):
        rows = merged(rows, starts(rows.sequence, rows.variable), how, text)
        values[rows.sequence * shape[1] + places[rows.variable]] = rows.value
        rows = rows[:0]
    return values.reshape(shape), rows[(rows.sequence == rows.sequence[:1]) & (rows.variable == rows.variable[:1])]
