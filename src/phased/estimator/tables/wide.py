"""Wide tables: a row per time, a column per variable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phased.estimator.tables.columns import listed
from phased.estimator.tables.merging import Measurements, merged, ordered, starts
from phased.estimator.tables.opened import Opened, bad_value, conflict, no_time, unknown_variables
from phased.estimator.tables.request import Request
from phased.estimator.tables.sequences import Sequences, arrange
from phased.estimator.tables.statics import constant, matrix_of
from phased.estimator.tables.values import read_values


def read_wide(opened: Opened, wanted: Request) -> Sequences:
    """Sequences from a table with a column per variable. Every row with a time is a step, also an empty one."""
    names = _variables(opened, wanted)
    matrix, counts = _values(opened, wanted, names)
    explicit = np.array([wanted.static is not None and name in wanted.static for name in names], np.bool_)
    known = opened.times.known
    bad = np.argwhere(~np.isnan(matrix) & ~known[:, None] & ~explicit)
    if len(bad):
        raise no_time(opened, int(bad[0, 0]), names[bad[0, 1]])
    time, origin = opened.clock(known)
    place = np.flatnonzero(known)
    place = place[np.lexsort((time[place], opened.sequence[place]))]
    sequence, time_of = opened.sequence[place], time[place]
    static = constant(matrix[place], sequence, time_of) if wanted.static is None else explicit
    statics = [name for name, is_static in zip(names, static, strict=True) if is_static]
    statics = statics if wanted.static is None else list(wanted.static)
    fixed = _measurements(matrix, np.arange(len(matrix)), opened.sequence, np.where(known, time, -np.inf), static)
    rows = _measurements(matrix, place, opened.sequence, time, ~static)
    rows, merges = _once(opened, wanted, names, rows)
    number = len(opened.ids)
    return Sequences(
        variables=tuple(name for name, is_static in zip(names, static, strict=True) if not is_static),
        statics=tuple(statics),
        static=matrix_of(fixed, number, statics, [names.index(name) for name in statics], wanted.merge, opened.rows),
        origin=origin,
        arrays=arrange(rows, number, np.cumsum(~static) - 1, _bare(sequence, time_of, matrix[place][:, ~static], number)),
        counts=counts | merges,
    )


def _variables(opened: Opened, wanted: Request) -> list[str]:
    """The names of the variables."""
    present = [name for name in opened.columns.wide if name != opened.columns.id]
    wanted.check_names(present, opened.rows.table.name)
    if wanted.like is None:
        return present
    known = [*wanted.like.variables, *wanted.like.statics]
    unknown = [name for name in present if name not in known]
    if unknown:
        raise unknown_variables(opened, 0, unknown[0], listed(unknown))
    return known


def _values(opened: Opened, wanted: Request, names: list[str]) -> tuple[NDArray[np.float64], dict[str, int]]:
    """The values, (rows, variables), NaN in empty cells, and how many were sentinels."""
    frame = opened.rows.table.frame
    matrix = np.full((len(frame), len(names)), np.nan)
    sentinels = 0
    for place, name in enumerate(names):
        if name in frame.columns:
            column, bad = read_values(frame[name])
            if len(bad):
                raise bad_value(opened, int(bad[0]), name, frame[name][int(bad[0])])
            absent = np.isin(column, wanted.sentinels(name))
            sentinels += int(absent.sum())
            matrix[:, place] = np.where(absent, np.nan, column)
    return matrix, {"sentinels": sentinels}


def _measurements(
    matrix: NDArray[np.float64],
    place: NDArray[np.int64],
    sequence: NDArray[np.int64],
    time: NDArray[np.float64],
    chosen: NDArray[np.bool_],
) -> Measurements:
    """The filled cells of the chosen columns, row after row in the order of `place`."""
    row, column = np.nonzero(~np.isnan(matrix[place]) & chosen)
    row = place[row]
    return Measurements(sequence[row], time[row], column, matrix[row, column], row)


def _once(opened: Opened, wanted: Request, names: list[str], rows: Measurements) -> tuple[Measurements, dict[str, int]]:
    """Rows with each sequence, time and variable once, and how many were merged into others."""
    rows = ordered(rows)

    def refuse(at: NDArray[np.int64], count: int) -> ValueError:
        same = ~starts(rows.sequence, rows.time, rows.variable)
        variable = names[rows.variable[np.flatnonzero(same)[0]]]
        values = read_values(opened.rows.table.frame[variable].gather(at.tolist()))[0].tolist()
        return conflict(opened, wanted, int(at[0]), variable, values, count)

    one = merged(rows, starts(rows.sequence, rows.time, rows.variable), wanted.merge, refuse)
    return one, {"merged": len(rows) - len(one)}


def _bare(
    sequence: NDArray[np.int64], time: NDArray[np.float64], matrix: NDArray[np.float64], sequences: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sequence and time of the steps at which nothing is measured; one at 0 for sequences without any time."""
    first = np.flatnonzero(starts(sequence, time))
    filled = np.add.reduceat((~np.isnan(matrix)).any(1).astype(np.int64), first) > 0 if len(first) else np.zeros(0, np.bool_)
    never = np.setdiff1d(np.arange(sequences), sequence)
    empty = first[~filled]
    return np.concatenate([sequence[empty], never]), np.concatenate([time[empty], np.zeros(len(never))])
