"""What is known once per sequence: which variables, and their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phased.estimator.settings import Merge
from phased.estimator.tables.merging import Measurements, merged, starts
from phased.estimator.tables.naming import Rows


def once(rows: Measurements, variables: int) -> NDArray[np.bool_]:
    """Which variables of a long table are static: all their values are at the first time of their sequence.

    A value that is measured once, but later, is not: at the first event it is not known yet. Nor is one with several values at
    that time. At least one sequence with the variable must have two times, otherwise nothing shows that it does not change.

    Args:
        rows: sorted by sequence, time, variable.
        variables: their number.
    """
    begin = np.flatnonzero(starts(rows.sequence))
    length = np.diff(np.append(begin, len(rows)))
    at_first = rows.time == np.repeat(rows.time[begin], length)
    goes_on = np.repeat(rows.time[begin + length - 1] > rows.time[begin], length)
    number = np.bincount(rows.variable, minlength=variables)
    shown = np.bincount(rows.variable[goes_on], minlength=variables) > 0
    differs = ~starts(rows.sequence, rows.time, rows.variable) & starts(rows.value)
    shown &= np.bincount(rows.variable[differs], minlength=variables) == 0
    return np.asarray(shown & (np.bincount(rows.variable[at_first], minlength=variables) == number))


def constant(matrix: NDArray[np.float64], sequence: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns of a wide table are static: constant in every sequence, and filled in all of its rows or in the first alone.

    Args:
        matrix: rows sorted by sequence and time; NaN where a cell is empty.
        sequence: of each row.
        time: of each row.
    """
    if not len(matrix):
        return np.zeros(matrix.shape[1], np.bool_)
    begin = np.flatnonzero(starts(sequence))
    length = np.diff(np.append(begin, len(sequence)))[:, None]
    goes_on = (time[begin + length[:, 0] - 1] > time[begin])[:, None]
    filled = ~np.isnan(matrix)
    count = np.add.reduceat(filled, begin, dtype=np.int64)
    same = np.fmin.reduceat(matrix, begin) == np.fmax.reduceat(matrix, begin)
    fits = (count == length) | ((count == 1) & filled[begin])
    return np.asarray(((count == 0) | (same & fits)).all(0) & ((count > 0) & goes_on).any(0))


def matrix_of(
    rows: Measurements,
    sequences: int,
    names: Sequence[str],
    codes: Sequence[int],
    how: Merge | None,
    text: NDArray[np.bool_],
    naming: Rows,
) -> NDArray[np.float64]:
    """Static values, (sequences, names), NaN where unknown; a ValueError if a sequence has several, unless merged.

    Args:
        rows: of static variables, in any order.
        sequences: their number.
        names: of the statics.
        codes: the numbers of these variables in `rows`.
        how: one value from several.
        text: for each variable in `rows` whether it is text.
        naming: for errors.
    """
    place = np.zeros(max(codes, default=0) + 1, np.int64)
    place[list(codes)] = np.arange(len(codes))
    cell = rows.sequence * len(names) + place[rows.variable]
    low, high = np.full(sequences * len(names), np.inf), np.full(sequences * len(names), -np.inf)
    np.minimum.at(low, cell, rows.value)
    np.maximum.at(high, cell, rows.value)
    matrix = np.where(low > high, np.nan, low)
    several = low < high  # the same value again is no contradiction
    if several.any():
        rows = rows[several[cell]]
        rows = rows[np.lexsort((rows.row, rows.variable, rows.sequence))]
        if how is None:
            raise _conflict(rows, names[place[rows.variable[0]]], bool(text[rows.variable[0]]), naming)
        rows = merged(rows, starts(rows.sequence, rows.variable), how, text)
        matrix[rows.sequence * len(names) + place[rows.variable]] = rows.value
    return matrix.reshape(sequences, len(names))


def _conflict(rows: Measurements, name: str, text: bool, naming: Rows) -> ValueError:
    """The error about several values of a static variable in the first of these sequences."""
    own = (rows.sequence == rows.sequence[0]) & (rows.variable == rows.variable[0])
    values = "several texts" if text else ", ".join(f"{value:g}" for value in np.unique(rows.value[own])[:5])
    return ValueError(
        f"a static variable must have one value per sequence, got {values} at {naming.where(int(rows.row[own].min()), name)}. "
        f"Leave {name!r} out of static=, or pass merge='first' or another rule."
    )
