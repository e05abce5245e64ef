"""From a table to the fields of Events. A long table has a row per measurement, a wide table a row per time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.events import Events
from phased.estimator.ragged import offsets
from phased.estimator.settings import Merge, Settings
from phased.estimator.tables.cells import empty, read_values, with_levels
from phased.estimator.tables.columns import MEDS, Opened, open_table
from phased.estimator.tables.formats import open_source


def read_table(source: Any, asked: Settings, like: Settings | None) -> tuple[Events, pl.Series]:
    """Return the Events of a table, and the time of each step as it stands in the table.

    Args:
        source: a path, a frame or a dictionary of columns.
        asked: arguments of the call.
        like: settings of the table read before, which complete the arguments.
    """
    opened = open_table(open_source(source), asked, like)
    how = opened.how
    cells = (read_wide if opened.wide else read_long)(opened)
    variables, found = (tuple(compress(cells.names, which)) for which in (~cells.static, cells.static))
    statics = found if how.statics is None else how.statics
    static, steps = _static(opened, cells, statics), _with_bare_steps(opened, cells)
    events = Events(
        ids=opened.ids,
        variables=variables,
        statics=statics,
        unit=how.unit,
        offset=offsets(np.bincount(steps.sequence, minlength=len(opened.ids))),
        time=steps.time,
        entry=offsets(steps.measured),
        variable=cells.variable.astype(np.int32, copy=False),
        value=cells.value,
        static=static,
        origin=cells.origin,
        settings=replace(how, variables=variables, statics=statics),
        counts={name: count for name, count in cells.counts.items() if count},
    )
    if cells.texts or how.levels:
        events = with_levels(events, cells.texts, how.levels)
    return events, opened.column("time").gather(pl.Series(steps.row).replace(-1, None))


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


class Steps(NamedTuple):
    """Steps in order: number of the sequence, time, row in the table or -1, and number of measurements."""

    sequence: NDArray[np.int64]
    time: NDArray[np.float64]
    row: NDArray[np.int64]
    measured: NDArray[np.int64]


class Cells(NamedTuple):
    """The values of a table.

    Args:
        names: of the variables.
        static: for each variable whether it is known once per sequence.
        fixed: measurements of static variables, in any order.
        steps: of the measurements of the others.
        variable: of each measurement, step after step, a number among the variables that are not static.
        value: of each measurement.
        texts: of each text variable. Its values are indices into these texts.
        counts: what happened to rows.
        time: of each row of the table.
        origin: date of time 0 of each sequence, or None.
    """

    names: list[str]
    static: NDArray[np.bool_]
    fixed: Measurements
    steps: Steps
    variable: NDArray[Any]
    value: NDArray[np.float64]
    texts: dict[str, list[str]]
    counts: dict[str, int]
    time: NDArray[np.float64]
    origin: NDArray[np.datetime64] | None


def read_long(opened: Opened) -> Cells:
    """The values of a table with columns of variable and value."""
    names, code = _rows_of_variables(opened)
    value, texts, sentinels = _long_values(opened, names, code)
    kept = ~np.isnan(value)
    static = np.isin(names, opened.how.statics or ()) | _timeless(opened, kept, code, names)
    time, origin = opened.clock(kept)
    rows = Measurements(opened.sequence, time, code, value, np.arange(len(value)))
    fixed, rows = (rows if kept.all() else rows[np.flatnonzero(kept)]).split(static)
    rows, count = ordered(rows), len(rows)
    if opened.how.merge is not None:
        rows = merged(rows, starts(rows.sequence, rows.time, rows.variable), opened.how.merge, np.isin(names, [*texts]))
    counts = {"sentinels": sentinels, "merged": count - len(rows)}
    if opened.how.statics is None:
        found = at_first_time(rows, len(names))
        more, rows = rows.split(found)
        fixed = Measurements(*map(np.concatenate, zip(vars(fixed).values(), vars(more).values(), strict=True)))
        static = static | found
    rows, turn = _in_turns(rows)
    begin = np.flatnonzero(starts(rows.sequence, rows.time, turn))
    steps = Steps(rows.sequence[begin], rows.time[begin], rows.row[begin], np.diff(begin, append=len(rows)))
    variable = (np.cumsum(~static) - 1)[rows.variable]
    return Cells(names, static, fixed, steps, variable, rows.value, texts, counts, time, origin)


def _rows_of_variables(opened: Opened) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of the variables, and the variable of each row, -1 for rows that are left out."""
    column, value = opened.column("variable").cast(pl.String).str.strip_chars(), opened.column("value")
    column = column.set((column == "").fill_null(False), None)
    for bad in (column.is_null() & value.is_not_null()).arg_true()[:1]:
        raise ValueError(f"each measurement must name its variable, and {opened.table.row(bad)} does not.")
    present = column.unique().drop_nulls().sort().to_list()
    opened.check_names(present)
    # A variable without any value, such as a code of MEDS for an event, is left out.
    lacking = empty(value)
    measured = {*column.filter(~lacking).unique().drop_nulls()} if lacking.any() else {*present}
    measured = (measured | {*(opened.how.statics or ())}) - {*opened.how.drop}
    names = opened.names([name for name in present if name in measured], lambda name: int((column == name).arg_max() or 0))
    left_out = sorted({*present} - {*names})
    number = column.cast(pl.Enum([*names, *left_out])).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return names, np.where(number < len(names), number, -1)


def _long_values(
    opened: Opened, names: list[str], code: NDArray[np.int64]
) -> tuple[NDArray[np.float64], dict[str, list[str]], int]:
    """Return the value of each row, NaN without a value, the texts of text variables, and the number of sentinels."""
    column = opened.column("value")
    value, bad = read_values(column)
    bad = bad[code[bad] >= 0]
    texts: dict[str, list[str]] = {}
    of_variable = np.bincount(code[bad], minlength=len(names))
    for number, name in enumerate(names):
        if of_variable[number] > 0 if opened.like is None else name in opened.like.levels:
            rows = np.flatnonzero(code == number)
            found = opened.texts(name, column.gather(rows), int(of_variable[number]))
            if found is not None:
                value = value if value.flags.writeable else value.copy()
                value[rows], texts[name] = found
                bad = bad[code[bad] != number]
    if len(bad):
        raise opened.bad_value(int(bad[0]), names[code[bad[0]]], column[int(bad[0])])
    sentinel = np.zeros(len(value), np.bool_)
    marked = [() if name in texts else opened.how.marks(name) for name in names]
    for numbers in {*marked} - {()}:
        applies = np.array([*(each == numbers for each in marked), False])  # the last for -1
        sentinel |= applies[code] & np.isin(value, numbers)
    absent = sentinel | (code < 0)
    return np.where(absent, np.nan, value) if absent.any() else value, texts, int(sentinel.sum())


def _timeless(opened: Opened, kept: NDArray[np.bool_], code: NDArray[np.int64], names: list[str]) -> NDArray[np.bool_]:
    """Return a bool per variable of MEDS: it never has a time, so it is static. Raises ValueError for others without a time."""
    never = np.zeros(len(names), np.bool_)
    lacking = kept & ~opened.times.known
    if lacking.any():
        if opened.how.columns == MEDS and opened.how.statics is None:
            number = np.bincount(code[kept], minlength=len(names))
            never = (number > 0) & (np.bincount(code[lacking], minlength=len(names)) == number)
        bad = np.flatnonzero(lacking & ~(never | np.isin(names, opened.how.statics or ()))[code])
        if len(bad):
            raise opened.no_time(int(bad[0]))
    return never


def _in_turns(rows: Measurements) -> tuple[Measurements, NDArray[np.int64]]:
    """Return the rows sorted by sequence, time, turn and variable, with the turns.

    The turn of the k-th value of a variable at a time, in the order of the table, is k: it belongs to the k-th step at that time.
    """
    first = starts(rows.sequence, rows.time, rows.variable)
    if first.all():
        return rows, np.zeros(len(rows), np.int64)
    turn = np.arange(len(rows)) - np.flatnonzero(first)[np.cumsum(first) - 1]
    order = np.lexsort((turn, np.cumsum(starts(rows.sequence, rows.time))))
    return rows[order], turn[order]


def read_wide(opened: Opened) -> Cells:
    """The values of a table with a column per variable. Every row with a time is a step.

    The cells stay a matrix: for dense tables, a row per cell takes six to eight times as long.
    """
    names, matrix, texts, sentinels = _matrix(opened)
    static, text, known = np.isin(names, opened.how.statics or ()), np.isin(names, [*texts]), opened.times.known
    bad = np.argwhere(~np.isnan(matrix[~known]) & ~static)
    if len(bad):
        raise opened.no_time(int(np.flatnonzero(~known)[bad[0, 0]]), names[bad[0, 1]])
    time, origin = opened.clock(known)
    none = np.zeros(len(matrix), np.int64)
    rows = Measurements(opened.sequence, np.where(known, time, -np.inf), none, none.astype(np.float64), np.arange(len(matrix)))
    steps = ordered(rows if known.all() else rows[known])
    cells = matrix if np.array_equal(steps.row, np.arange(len(matrix))) else matrix[steps.row]
    static = constant(cells, steps) if opened.how.statics is None else static
    fixed = _filled(matrix, rows, np.flatnonzero(static))
    cells = cells[:, ~static] if static.any() else cells
    counts = {"sentinels": sentinels}
    if opened.how.merge is not None:
        cells, steps, counts["merged"] = _collapse(opened.how.merge, text[~static], cells, steps)
    measured = ~np.isnan(cells)
    variable = np.broadcast_to(np.arange(cells.shape[1], dtype=np.int32), measured.shape)[measured]
    found = Steps(steps.sequence, steps.time, steps.row, measured.sum(1))
    return Cells(names, static, fixed, found, variable, cells[measured], texts, counts, time, origin)


def _matrix(opened: Opened) -> tuple[list[str], NDArray[np.float64], dict[str, list[str]], int]:
    """Return the variables, values (rows, variables), NaN in empty cells, texts of text variables, number of sentinels."""
    frame, how = opened.table.frame, opened.how
    opened.check_names([*opened.wide, *opened.dropped])
    names = opened.names(opened.wide)
    columns = dict(zip(frame.columns, frame.get_columns(), strict=True))
    matrix = np.full((len(frame), len(names)), np.nan)
    texts, sentinels = {}, 0
    for place, name in enumerate(names):
        if name not in columns:
            continue
        column, bad = read_values(columns[name])
        found = opened.texts(name, columns[name], len(bad))
        if found is not None:
            matrix[:, place], texts[name] = found
            continue
        if len(bad):
            raise opened.bad_value(int(bad[0]), name, columns[name][int(bad[0])])
        matrix[:, place] = column
        if marks := how.marks(name):
            absent = np.isin(column, marks)
            sentinels += int(absent.sum())
            matrix[absent, place] = np.nan
    return names, matrix, texts, sentinels


def _filled(matrix: NDArray[np.float64], rows: Measurements, columns: NDArray[np.int64]) -> Measurements:
    """The filled cells of some columns, row after row, each with the sequence and time of its row."""
    place, column = np.nonzero(~np.isnan(matrix[:, columns]))
    column = columns[column]
    return replace(rows[place], variable=column, value=matrix[place, column])


def _collapse(
    how: Merge, text: NDArray[np.bool_], cells: NDArray[np.float64], steps: Measurements
) -> tuple[NDArray[np.float64], Measurements, int]:
    """Return one row for each sequence and time, and the number of values that were merged into others."""
    begin = np.flatnonzero(starts(steps.sequence, steps.time))
    length = np.diff(begin, append=len(steps))
    step = np.repeat(np.arange(len(begin)), length)
    several = np.flatnonzero(length[step] > 1)
    part = replace(steps[several], sequence=step[several])
    rows = ordered(_filled(cells[several], part, np.arange(cells.shape[1])))
    one = merged(rows, starts(rows.sequence, rows.time, rows.variable), how, text)
    cells = cells[begin]
    cells[length > 1] = np.nan
    cells[one.sequence, one.variable] = one.value
    return cells, steps[begin], len(rows) - len(one)


def _static(opened: Opened, cells: Cells, statics: Sequence[str]) -> NDArray[np.float64]:
    """The values that are known once per sequence, (sequences, statics), NaN where unknown."""
    names = cells.names
    place = {name: number for number, name in enumerate(statics)}
    places = np.array([place.get(name, 0) for name in names], np.int64)
    text = np.isin(names, [*cells.texts])
    matrix, wrong = one_per_sequence(cells.fixed, places, (len(opened.ids), len(statics)), opened.how.merge, text)
    if len(wrong):
        name, where = names[wrong.variable[0]], int(wrong.row.min())
        several = ", ".join(f"{value:g}" for value in np.unique(wrong.value)[:5]) if name not in cells.texts else "several texts"
        cure = "" if opened.like is not None else f", or leave {name!r} out of static"
        raise ValueError(
            f"a static variable must have one value per sequence, got {several} at {opened.table.where(where, name)}. "
            f"Merge its values (merge: 'first', or another rule){cure}."
        )
    return matrix


def _with_bare_steps(opened: Opened, cells: Cells) -> Steps:
    """Return the steps, and an empty step for a sequence without one, at the first time of its rows or at 0."""
    without = np.bincount(cells.steps.sequence, minlength=len(opened.ids)) == 0
    if not without.any():
        return cells.steps
    time, known = np.where(opened.times.known, cells.time, np.inf), opened.times.known
    row = np.flatnonzero(without[opened.sequence])
    row = row[np.lexsort((time[row], opened.sequence[row]))]
    row = row[starts(opened.sequence[row])]
    bare = Steps(opened.sequence[row], np.where(known[row], time[row], 0.0), np.where(known[row], row, -1), np.zeros_like(row))
    steps = [np.concatenate(pair) for pair in zip(cells.steps, bare, strict=True)]
    order = np.argsort(steps[0], kind="stable")
    return Steps(*(each[order] for each in steps))


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
