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
        counts: what happened to rows.
    """

    variables: tuple[str, ...]
    statics: tuple[str, ...]
    static: NDArray[np.float64]
    origin: NDArray[np.datetime64] | None
    arrays: dict[str, NDArray[Any]]
    counts: dict[str, int]


def arrange(
    rows: Measurements, sequences: int, variable: NDArray[np.int64], other: tuple[NDArray[np.int64], NDArray[np.float64]]
) -> dict[str, NDArray[Any]]:
    """The flat arrays of Events.

    Args:
        rows: sorted by sequence, time, variable, each of these once.
        sequences: their number.
        variable: the new number of each variable, increasing.
        other: sequence and time of steps without a measurement, sorted, none of them in `rows`.
    """
    first = starts(rows.sequence, rows.time)
    begin = np.flatnonzero(first)
    sequence, time = rows.sequence[begin], rows.time[begin]
    count = np.diff(np.append(begin, len(rows)))
    if len(other[0]):
        sequence, time = np.concatenate([sequence, other[0]]), np.concatenate([time, other[1]])
        count = np.concatenate([count, np.zeros(len(other[0]), np.int64)])
        order = np.lexsort((time, sequence))
        sequence, time, count = sequence[order], time[order], count[order]
    return {
        "offset": offsets(np.bincount(sequence, minlength=sequences)),
        "time": time,
        "entry": offsets(count),
        "variable": variable[rows.variable].astype(np.int32),
        "value": rows.value,
    }
