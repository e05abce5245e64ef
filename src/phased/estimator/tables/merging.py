"""Several values that become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from phased.estimator.settings import Merge
from phased.estimator.tables.keys import is_sorted, packed_order

MERGES = get_args(Merge)


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

    @classmethod
    def both(cls, one: Measurements, two: Measurements) -> Measurements:
        """The rows of two."""
        names = ("sequence", "time", "variable", "value", "row")
        return cls(*(np.concatenate([getattr(one, name), getattr(two, name)]) for name in names))


def starts(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a row is the first of a run of rows with equal keys."""
    first = np.ones(len(keys[0]), np.bool_)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def ordered(rows: Measurements) -> Measurements:
    """Rows sorted by sequence, time, variable and row."""
    if is_sorted(rows.sequence, rows.time, rows.variable, rows.row):
        return rows
    packed = packed_order(rows.sequence, rows.time, rows.variable)
    if packed is not None:
        place = packed.permutation
        row = place if np.array_equal(rows.row, np.arange(len(rows))) else rows.row[place]
        made = Measurements(packed.sequence, rows.time[place], packed.variable, rows.value[place], row)
        if is_sorted(made.sequence, made.time, made.variable):
            run = np.cumsum(starts(made.sequence, made.time, made.variable))
            return made if is_sorted(run, made.row) else made[np.lexsort((made.row, run))]
    return rows[np.lexsort((rows.row, rows.variable, rows.time, rows.sequence))]


def merged(rows: Measurements, first: NDArray[np.bool_], how: Merge, text: NDArray[np.bool_]) -> Measurements:
    """One row for each run of rows; `first` marks where runs begin.

    Args:
        rows: sorted, so that the rows of a run follow each other.
        first: whether a row begins a run.
        how: the value of a run of several.
        text: for each variable whether it is text, which has no mean: the last one counts unless the first is asked for.

    Returns:
        A row for each run; `row` is that of the run's first row in the table.
    """
    if first.all():
        return rows
    begin = np.flatnonzero(first)
    length = np.diff(np.append(begin, len(rows)))
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
