"""The values of a part of a table as numbers. Rows are measurements in a long table and times in a wide table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import starts
from phased.estimator.tables.cells import read_texts, read_values
from phased.estimator.tables.parts import VARIABLE, Part


class Cells(NamedTuple):
    """Values without missing ones. `at` is the step, row or sequence of each value."""

    at: NDArray[Any]
    variable: NDArray[Any]
    value: NDArray[np.float64]

    def take(self, index: NDArray[Any]) -> Cells:
        """Return the items of an index."""
        return Cells(self.at[index], self.variable[index], self.value[index])


class Steps(NamedTuple):
    """Steps in order: sequence, time, and row, which is -1 for a time that is not in the table."""

    sequence: NDArray[Any]
    time: NDArray[np.float64]
    row: NDArray[Any]

    def take(self, index: NDArray[Any]) -> Steps:
        """Return the items of an index."""
        return Steps(self.sequence[index], self.time[index], self.row[index])


@dataclass(frozen=True)
class Draft:
    """The values of a part, before it is known which variables of the table are static.

    Args:
        part: its rows.
        steps: of its rows with a time.
        cells: of the steps, sorted by step and variable. Several values of a step and variable are merged later.
        timeless: of the rows without a time.
        texts: of each text variable. Its values are indices into these texts.
        origin: date of time 0 of each sequence, or None.
        counts: what happened to rows.
        may, does: two bools per variable: it may be static, and one of these sequences shows that it is.
    """

    part: Part
    steps: Steps
    cells: Cells
    timeless: Cells
    texts: dict[str, list[str]]
    origin: NDArray[np.datetime64] | None
    counts: dict[str, int]
    may: NDArray[np.bool_]
    does: NDArray[np.bool_]


def draft_long(part: Part) -> Draft:
    """The values of rows with one value each."""
    how, names = part.table.how, part.table.names
    variable = part.frame[VARIABLE].to_numpy()
    value, texts, sentinels = _long_values(part, variable)
    times, used = part.times(), ~np.isnan(value)
    origin = part.origin(times, used)
    row, without = np.flatnonzero(used & times.known), np.flatnonzero(used & ~times.known)
    time = part.since(origin, times)
    row = row[_order(part.sequence[row], time[row], variable[row])].astype(np.int32)
    sequence, time, code = part.sequence[row], time[row], variable[row]
    first = starts(sequence, time, code)
    may, does = _at_first_time(sequence, time, code, None if how.merge else value[row], len(names))
    counts = {"sentinels": sentinels}
    begin = starts(sequence, time)
    if how.merge:
        counts["merged"] = int((~first & ~np.isin(names, how.statics or ())[code]).sum())
    elif not first.all():
        # The k-th value of a variable at a time, in the order of the table, belongs to the k-th step at that time.
        turn = np.arange(len(row)) - np.flatnonzero(first)[np.cumsum(first) - 1]
        order = np.lexsort((turn, np.cumsum(begin)))
        row, sequence, time, code = row[order], sequence[order], time[order], code[order]
        begin = starts(sequence, time, turn[order])
    cells = Cells(np.cumsum(begin, dtype=np.int32) - 1, code, value[row])
    timeless = Cells(without, variable[without], value[without])
    return Draft(part, Steps(sequence, time, row).take(begin), cells, timeless, texts, origin, counts, may, does)


def _long_values(part: Part, variable: NDArray[Any]) -> tuple[NDArray[np.float64], dict[str, list[str]], int]:
    """Return the value of each row, NaN without a value, the texts of text variables, and the number of sentinels."""
    how, names = part.table.how, part.table.names
    column = part.frame[how.columns["value"]]
    value, bad = read_values(column)
    value, bad, texts = np.where(variable < 0, np.nan, value), bad[variable[bad] >= 0], {}
    for number in (number for number, name in enumerate(names) if name in part.table.texts):
        rows = np.flatnonzero(variable == number)
        value[rows], texts[names[number]] = read_texts(column.gather(rows), how.marks(names[number]))
        bad = bad[variable[bad] != number]
    for row in bad[:1].tolist():
        raise part.bad_value(row, names[variable[row]], column[row])
    marked = [() if name in texts else how.marks(name) for name in names]
    sentinel = np.zeros(len(value), np.bool_)
    for numbers in {*marked} - {()}:
        applies = np.array([*(each == numbers for each in marked), False])  # the last for -1
        sentinel |= applies[variable] & np.isin(value, numbers)
    value[sentinel] = np.nan
    return value, texts, int(sentinel.sum())


def _order(sequence: NDArray[Any], time: NDArray[np.float64], variable: NDArray[Any]) -> NDArray[np.int64]:
    """The order of rows by sequence, time and variable. Rows that are equal in all three keep their order."""
    keys = sequence, pl.Series(time).rank("dense").to_numpy().astype(np.int64), variable
    sizes = [int(key.max(initial=0)) + 1 for key in keys]
    if math.prod(sizes) >= 2**63:
        return np.lexsort(keys[::-1])
    key = pl.DataFrame({"key": np.ravel_multi_index(keys, sizes)})  # one integer is sorted several times faster than three keys
    return key.select(pl.arg_sort_by("key", maintain_order=True).cast(pl.Int64)).to_series().to_numpy()


def _at_first_time(
    sequence: NDArray[Any], time: NDArray[np.float64], variable: NDArray[Any], value: NDArray[np.float64] | None, variables: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two bools per variable of a long table: it may be static, and a sequence shows that it is.

    It may be if it is measured only at the first time of every sequence. A value that is measured once, but later, is not known
    at the first event. Nor is one with several values at that time, unless they are merged. A sequence with the variable shows
    that it does not change if it has two times.

    Args:
        sequence, time, variable: of each row, sorted.
        value: of each row, or None if values of one time are merged.
        variables: their number.
    """
    begin = np.flatnonzero(starts(sequence))
    length = np.diff(begin, append=len(sequence))
    later = time > np.repeat(time[begin], length)
    if value is not None:
        later |= ~starts(sequence, time, variable) & starts(value)
    goes_on = np.repeat(time[begin + length - 1] > time[begin], length)
    return np.bincount(variable[later], minlength=variables) == 0, np.bincount(variable[goes_on], minlength=variables) > 0


def draft_wide(part: Part) -> Draft:
    """The values of rows with a column per variable. Every row with a time is a step."""
    matrix, texts, sentinels = _matrix(part)
    times = part.times()
    origin = part.origin(times, times.known)
    row, without = np.flatnonzero(times.known), np.flatnonzero(~times.known)
    time = part.since(origin, times)
    row = row[_order(part.sequence[row], time[row], np.zeros_like(row))]
    steps, ordered = Steps(part.sequence[row], time[row], row), matrix[row]
    may, does = _constant(ordered, steps)
    cells, timeless = _filled(ordered), _filled(matrix[without])
    timeless = timeless._replace(at=without[timeless.at])
    return Draft(part, steps, cells, timeless, texts, origin, {"sentinels": sentinels}, may, does)


def _matrix(part: Part) -> tuple[NDArray[np.float64], dict[str, list[str]], int]:
    """Return the values (rows, variables), NaN in empty cells, the texts of text variables, and the number of sentinels."""
    how, columns = part.table.how, {column.name: column for column in part.frame.get_columns()}
    matrix = np.full((len(part.frame), len(part.table.names)), np.nan)
    texts, sentinels = {}, 0
    for place, name in enumerate(part.table.names):
        column = columns.get(name)
        if column is None:
            continue
        if name in part.table.texts:
            matrix[:, place], texts[name] = read_texts(column, how.marks(name))
            continue
        matrix[:, place], bad = read_values(column)
        for row in bad[:1].tolist():
            raise part.bad_value(row, name, column[row])
        if marks := how.marks(name):
            absent = np.isin(matrix[:, place], marks)
            sentinels += int(absent.sum())
            matrix[absent, place] = np.nan
    return matrix, texts, sentinels


def _filled(matrix: NDArray[np.float64]) -> Cells:
    """The filled cells of a matrix, row after row."""
    filled = ~np.isnan(matrix)
    at = np.repeat(np.arange(len(matrix), dtype=np.int32), filled.sum(1))
    return Cells(at, np.broadcast_to(np.arange(matrix.shape[1], dtype=np.int32), filled.shape)[filled], matrix[filled])


def _constant(matrix: NDArray[np.float64], steps: Steps) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two bools per variable of a wide table: it may be static, and a sequence shows that it is.

    It may be if it is constant in every sequence, and filled in all of its rows or only in the first. A sequence with the
    variable shows that it does not change if it has two times.

    Args:
        matrix: (steps, variables), NaN where a cell is empty.
        steps: in order.
    """
    if not len(matrix):
        return np.ones(matrix.shape[1], np.bool_), np.zeros(matrix.shape[1], np.bool_)
    begin = np.flatnonzero(starts(steps.sequence))
    length = np.diff(begin, append=len(matrix))[:, None]
    goes_on = (steps.time[begin + length[:, 0] - 1] > steps.time[begin])[:, None]
    filled = ~np.isnan(matrix)
    count = np.add.reduceat(filled, begin, dtype=np.int64)
    same = np.fmin.reduceat(matrix, begin) == np.fmax.reduceat(matrix, begin)
    fits = (count == length) | ((count == 1) & filled[begin])
    return np.asarray(((count == 0) | (same & fits)).all(0)), np.asarray(((count > 0) & goes_on).any(0))


def first_row(draft: Draft, cells: Cells) -> int:
    """The first row with one of the values of a variable in a sequence."""
    part, (sequence, variable) = draft.part, (cells.at[0], cells.variable[0])
    if part.table.wide:
        filled = ~np.isnan(_matrix(part)[0][:, variable])
    else:
        code = part.frame[VARIABLE].to_numpy()
        filled = (code == variable) & ~np.isnan(_long_values(part, code)[0])
    return int(np.flatnonzero(filled & (part.sequence == sequence))[0])
