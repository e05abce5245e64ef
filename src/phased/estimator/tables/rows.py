"""Measurements sorted by sequence, time and variable, merged, and split into static and other variables."""

from __future__ import annotations

import math
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


def starts(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a row is the first of a run of rows with equal keys."""
    first = np.ones(len(keys[0]), np.bool_)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def ordered(rows: Measurements) -> Measurements:
    """Rows sorted by sequence, time and variable. Rows that are equal in all three keep their order."""
    keys = rows.sequence, pl.Series(rows.time).rank("dense").to_numpy().astype(np.int64), rows.variable
    sizes = [int(key.max(initial=0)) + 1 for key in keys]
    if math.prod(sizes) >= 2**63:
        return rows[np.lexsort(keys[::-1])]
    key = pl.DataFrame({"key": np.ravel_multi_index(keys, sizes)})  # one integer is sorted several times faster than three keys
    return rows[key.select(pl.arg_sort_by("key", maintain_order=True)).to_series().to_numpy()]


def merged(rows: Measurements, first: NDArray[np.bool_], how: Merge, text: NDArray[np.bool_]) -> Measurements:
    """Return one row for each run of rows.

    Args:
        rows: sorted, so that the rows of a run follow each other in the order of their times, and of the table.
        first: whether a row begins a run.
        how: the value of a run of several.
        text: for each variable whether it is text, which has no mean: the last one counts unless the first is asked for.

    Returns:
        The first row of each run, with the value of the run.
    """
    if first.all():
        return rows
    begin = np.flatnonzero(first)
    length = np.diff(begin, append=len(rows))
    run = np.repeat(np.arange(len(begin)), length)
    several = length[run] > 1  # the others stay as they are
    part, run = rows[several], run[several]
    cut = np.flatnonzero(starts(run))
    end = np.append(cut[1:], len(run)) - 1
    by_value = part.value[np.lexsort((part.value, run))]  # the order of rows does not change the last bit of a sum
    total = np.add.reduceat(by_value, cut)
    chosen = {
        "first": part.value[cut],
        "last": part.value[end],
        "min": by_value[cut],
        "max": by_value[end],
        "sum": total,
        "mean": total / (end - cut + 1),
    }
    made = rows[begin]
    made.value[length > 1] = np.where(text[part.variable[cut]], chosen["first" if how == "first" else "last"], chosen[how])
    return made


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
    rows = rows[np.lexsort((rows.row, rows.time, rows.variable, rows.sequence))]
    if how is not None and len(rows):
        rows = merged(rows, starts(rows.sequence, rows.variable), how, text)
        values[rows.sequence * shape[1] + places[rows.variable]] = rows.value
        rows = rows[:0]
    return values.reshape(shape), rows[(rows.sequence == rows.sequence[:1]) & (rows.variable == rows.variable[:1])]
