"""Wide tables: a row per time, a column per variable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phased.estimator.ragged import offsets
from phased.estimator.settings import Merge
from phased.estimator.tables.categories import Levels, with_levels
from phased.estimator.tables.columns import listed
from phased.estimator.tables.merging import Measurements, merged, ordered, starts
from phased.estimator.tables.opened import Opened, bad_value, no_time, unknown_variables
from phased.estimator.tables.request import Request
from phased.estimator.tables.sequences import Sequences
from phased.estimator.tables.statics import constant, matrix_of
from phased.estimator.tables.values import is_text, read_texts, read_values


def read_wide(opened: Opened, wanted: Request) -> tuple[Sequences, Levels]:
    """Sequences from a table with a column per variable, and the levels of text variables. Every row with a time is a step."""
    names = _variables(opened, wanted)
    matrix, texts, counts = _values(opened, wanted, names)
    text = np.array([name in texts for name in names], np.bool_)
    explicit = wanted.is_static(names)
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
    cells = cells[:, ~static] if static.any() else cells
    if wanted.merge is not None:
        cells, steps, counts["merged"] = _collapse(wanted.merge, text[~static], cells, steps)
    measured = ~np.isnan(cells)
    place = {name: number for number, name in enumerate(names)}
    codes = [place[name] for name in statics]
    made = Sequences(
        variables=tuple(variables),
        statics=tuple(statics),
        static=matrix_of(fixed, len(opened.ids), statics, codes, wanted.merge, text, opened.rows),
        origin=origin,
        arrays={
            "offset": offsets(np.bincount(steps.sequence, minlength=len(opened.ids))),
            "time": steps.time,
            "entry": offsets(measured.sum(1)),
            "variable": np.broadcast_to(np.arange(len(variables), dtype=np.int32), measured.shape)[measured],
            "value": cells[measured],
        },
        row=steps.row,
        counts=counts,
    )
    return with_levels(made, texts, None if wanted.like is None else wanted.like.levels)


def _variables(opened: Opened, wanted: Request) -> list[str]:
    """The names of the variables."""
    present = list(opened.columns.wide)
    wanted.check_names([*present, *opened.columns.dropped], opened.rows.table.name)
    if wanted.like is None:
        return present
    known = list(wanted.like.in_table((*wanted.like.variables, *wanted.like.statics)))
    there = set(known)
    unknown = [name for name in present if name not in there]
    if unknown:
        raise unknown_variables(opened, 0, unknown[0], listed(unknown))
    return known


def _values(
    opened: Opened, wanted: Request, names: list[str]
) -> tuple[NDArray[np.float64], dict[str, list[str]], dict[str, int]]:
    """The values, (rows, variables), NaN in empty cells; the texts of text variables; and how many values were sentinels."""
    frame = opened.rows.table.frame
    columns = dict(zip(frame.columns, frame.get_columns(), strict=True))
    matrix = np.full((len(frame), len(names)), np.nan)
    texts, sentinels = {}, 0
    for place, name in enumerate(names):
        if name in columns:
            column, bad = read_values(columns[name])
            if is_text(columns[name], len(bad)) if wanted.like is None else name in wanted.like.levels:
                matrix[:, place], texts[name] = read_texts(columns[name], wanted.sentinels(name))
                continue
            if len(bad):
                raise bad_value(opened, int(bad[0]), name, columns[name][int(bad[0])])
            matrix[:, place] = column
            if wanted.sentinels(name):
                absent = np.isin(column, wanted.sentinels(name))
                sentinels += int(absent.sum())
                matrix[absent, place] = np.nan
    return matrix, texts, {"sentinels": sentinels}


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
    how: Merge, text: NDArray[np.bool_], cells: NDArray[np.float64], steps: Measurements
) -> tuple[NDArray[np.float64], Measurements, int]:
    """One row for each sequence and time, and how many values were merged into others."""
    first = starts(steps.sequence, steps.time)
    begin = np.flatnonzero(first)
    length = np.diff(np.append(begin, len(steps)))
    step = np.repeat(np.arange(len(begin)), length)
    several = np.flatnonzero(length[step] > 1)
    part = steps[several]
    rows = ordered(_filled(cells[several], part.time, step[several], part.row, np.arange(cells.shape[1])))
    one = merged(rows, starts(rows.sequence, rows.time, rows.variable), how, text)
    cells = cells[begin]
    cells[length > 1] = np.nan
    cells[one.sequence, one.variable] = one.value
    return cells, steps[begin], len(rows) - len(one)
