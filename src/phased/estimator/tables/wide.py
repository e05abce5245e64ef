"""Wide tables: a row per time, a column per variable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phased.estimator.ragged import offsets
from phased.estimator.tables.columns import listed
from phased.estimator.tables.merging import Measurements, merged, ordered, starts
from phased.estimator.tables.opened import Opened, bad_value, conflict, no_time, unknown_variables
from phased.estimator.tables.request import Request
from phased.estimator.tables.sequences import Sequences
from phased.estimator.tables.statics import constant, matrix_of
from phased.estimator.tables.values import read_values


def read_wide(opened: Opened, wanted: Request) -> Sequences:
    """Sequences from a table with a column per variable.

    Every row with a time is a step, also an empty one, but not one with statics alone, which is none in a long table either.
    """
    names = _variables(opened, wanted)
    matrix, counts = _values(opened, wanted, names)
    explicit = np.array([wanted.static is not None and name in wanted.static for name in names], np.bool_)
    known = opened.times.known
    bad = np.argwhere(~np.isnan(matrix[~known]) & ~explicit)
    if len(bad):
        raise no_time(opened, int(np.flatnonzero(~known)[bad[0, 0]]), names[bad[0, 1]])
    time, origin = opened.clock(known)
    steps = _steps(opened, known, time)
    cells = matrix if np.array_equal(steps.row, np.arange(len(matrix))) else matrix[steps.row]
    static = constant(cells, steps.sequence, steps.time) if wanted.static is None else explicit
    statics = [name for name, is_static in zip(names, static, strict=True) if is_static]
    statics = statics if wanted.static is None else list(wanted.static)
    fixed = _filled(matrix, np.where(known, time, -np.inf), opened.sequence, np.arange(len(matrix)), np.flatnonzero(static))
    variables = [name for name, is_static in zip(names, static, strict=True) if not is_static]
    if static.any():
        chosen = _over_time(cells, static, steps.sequence)
        cells, steps = cells[chosen][:, ~static], steps[chosen]
    cells, steps, merges = _collapse(opened, wanted, variables, cells, steps)
    measured = ~np.isnan(cells)
    return Sequences(
        variables=tuple(variables),
        statics=tuple(statics),
        static=matrix_of(fixed, len(opened.ids), statics, [names.index(name) for name in statics], wanted.merge, opened.rows),
        origin=origin,
        arrays={
            "offset": offsets(np.bincount(steps.sequence, minlength=len(opened.ids))),
            "time": steps.time,
            "entry": offsets(measured.sum(1)),
            "variable": np.broadcast_to(np.arange(len(variables), dtype=np.int32), measured.shape)[measured],
            "value": cells[measured],
        },
        counts=counts | merges,
    )


def _variables(opened: Opened, wanted: Request) -> list[str]:
    """The names of the variables."""
    present = list(opened.columns.wide)
    wanted.check_names([*present, *opened.columns.dropped], opened.rows.table.name)
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
            matrix[:, place] = column
            if wanted.sentinels(name):
                absent = np.isin(column, wanted.sentinels(name))
                sentinels += int(absent.sum())
                matrix[absent, place] = np.nan
    return matrix, {"sentinels": sentinels}


def _steps(opened: Opened, known: NDArray[np.bool_], time: NDArray[np.float64]) -> Measurements:
    """The rows with a time, sorted by sequence and time; their variable and value have no meaning."""
    place = np.flatnonzero(known)
    none = np.zeros(len(place), np.int64)
    rows = ordered(Measurements(opened.sequence[place], time[place], none, none.astype(np.float64), place))
    without = np.flatnonzero(np.bincount(rows.sequence, minlength=len(opened.ids)) == 0)
    if len(without):  # no row of the sequence has a time: its statics are known, and one step is at 0
        first = np.array([int(np.argmax(opened.sequence == number)) for number in without])
        zeros = np.zeros(len(without))
        rows = ordered(Measurements.both(rows, Measurements(without, zeros, zeros.astype(np.int64), zeros, first)))
    return rows


def _over_time(cells: NDArray[np.float64], static: NDArray[np.bool_], sequence: NDArray[np.int64]) -> NDArray[np.int64]:
    """The steps that are more than statics; of a sequence without such a step, the first."""
    filled = ~np.isnan(cells)
    chosen = filled[:, ~static].any(1) | ~filled.any(1)
    bare = np.bincount(sequence[chosen], minlength=int(sequence.max(initial=-1)) + 1) == 0
    return np.flatnonzero(chosen | (bare[sequence] & starts(sequence)))


def _filled(
    matrix: NDArray[np.float64],
    time: NDArray[np.float64],
    sequence: NDArray[np.int64],
    row: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> Measurements:
    """The filled cells of some columns, row after row."""
    place, column = np.nonzero(~np.isnan(matrix[:, columns]))
    column = columns[column]
    return Measurements(sequence[place], time[place], column, matrix[place, column], row[place])


def _collapse(
    opened: Opened, wanted: Request, names: list[str], cells: NDArray[np.float64], steps: Measurements
) -> tuple[NDArray[np.float64], Measurements, dict[str, int]]:
    """One row for each sequence and time, and how many values were merged into others."""
    first = starts(steps.sequence, steps.time)
    if first.all():
        return cells, steps, {}
    begin = np.flatnonzero(first)
    length = np.diff(np.append(begin, len(steps)))
    step = np.repeat(np.arange(len(begin)), length)
    several = np.flatnonzero(length[step] > 1)
    part = steps[several]
    rows = ordered(_filled(cells[several], part.time, step[several], part.row, np.arange(len(names))))

    def refuse(at: NDArray[np.int64], count: int) -> ValueError:
        again = np.flatnonzero(~starts(rows.sequence, rows.time, rows.variable))[0]
        values = rows.value[np.isin(rows.row, at) & (rows.variable == rows.variable[again])].tolist()
        return conflict(opened, int(at[0]), names[rows.variable[again]], values, count)

    one = merged(rows, starts(rows.sequence, rows.time, rows.variable), wanted.merge, refuse)
    cells = cells[begin]
    cells[length > 1] = np.nan
    cells[one.sequence, one.variable] = one.value
    return cells, steps[begin], {"merged": len(rows) - len(one)}
