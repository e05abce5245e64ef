"""Steps and measurements in order: what Events are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator.ragged import offsets
from phased.estimator.tables.merging import Measurements, starts


@dataclass(frozen=True)
class Sequences:
    """What was made of a table.

    Args:
        variables: names of what is measured over time.
        statics: names of what is known once per sequence.
        static: (n, statics), NaN where unknown.
        origin: date of time 0 of each sequence, or None.
        arrays: offset, time, entry, variable and value of Events.
        row: the row in the table of each step, or -1.
        counts: what happened to rows.
    """

    variables: tuple[str, ...]
    statics: tuple[str, ...]
    static: NDArray[np.float64]
    origin: NDArray[np.datetime64] | None
    arrays: dict[str, NDArray[Any]]
    row: NDArray[np.int64]
    counts: dict[str, int]


def arrange(rows: Measurements, sequences: int, variable: NDArray[np.int64], other: Measurements) -> dict[str, NDArray[Any]]:
    """The flat arrays of Events, and the row in the table of each step.

    The k-th value of a variable at a time, in the order of the table, belongs to the k-th step at that time.

    Args:
        rows: sorted by sequence, time, variable and row.
        sequences: their number.
        variable: the new number of each variable, increasing.
        other: steps without a measurement, none of them in `rows`.
    """
    rows, turn = _in_turns(rows)
    begin = np.flatnonzero(starts(rows.sequence, rows.time, turn))
    count = np.diff(np.append(begin, len(rows)))
    sequence, time, row = rows.sequence[begin], rows.time[begin], rows.row[begin]
    if len(other):
        sequence, time = np.concatenate([sequence, other.sequence]), np.concatenate([time, other.time])
        row = np.concatenate([row, other.row])
        count = np.concatenate([count, np.zeros(len(other), np.int64)])
        order = np.lexsort((time, sequence))  # stable, and a sequence of `other` has no steps in `rows`
        sequence, time, row, count = sequence[order], time[order], row[order], count[order]
    return {
        "offset": offsets(np.bincount(sequence, minlength=sequences)),
        "time": time,
        "entry": offsets(count),
        "variable": variable[rows.variable].astype(np.int32),
        "value": rows.value,
        "row": row,
    }


def _in_turns(rows: Measurements) -> tuple[Measurements, NDArray[np.int64]]:
    """The rows sorted by sequence, time, turn and variable, and their turns: 0 for the first value of a variable at a time."""
    first = starts(rows.sequence, rows.time, rows.variable)
    if first.all():
        return rows, np.zeros(len(rows), np.int64)
    turn = np.arange(len(rows)) - np.flatnonzero(first)[np.cumsum(first) - 1]
    order = np.lexsort((turn, np.cumsum(starts(rows.sequence, rows.time))))
    return rows[order], turn[order]
