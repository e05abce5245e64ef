"""Long tables: a row per measurement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.tables.categories import Levels, with_levels
from phased.estimator.tables.columns import listed
from phased.estimator.tables.merging import Measurements, merged, ordered, starts
from phased.estimator.tables.opened import Opened, bad_value, no_time, unknown_variables
from phased.estimator.tables.request import Request
from phased.estimator.tables.sequences import Sequences, arrange
from phased.estimator.tables.statics import matrix_of, once
from phased.estimator.tables.values import is_text, read_texts, read_values


def read_long(opened: Opened, wanted: Request) -> tuple[Sequences, Levels]:
    """Sequences from a table with columns of variable and value, and the levels of text variables."""
    names, code = _variables(opened, wanted)
    value, texts, counts = _values(opened, wanted, names, code)
    text = np.array([name in texts for name in names], np.bool_)
    kept = ~np.isnan(value)
    explicit = wanted.is_static(names)
    timeless = _timeless(opened, kept, code, names, explicit)
    time, origin = opened.clock(kept)
    place = np.flatnonzero(kept)
    rows = Measurements(opened.sequence, time, code, value, np.arange(len(value)))
    rows = rows if len(place) == len(kept) else rows[place]
    apart = (explicit | timeless)[rows.variable]
    fixed, rows = (rows[apart], rows[~apart]) if apart.any() else (rows[:0], rows)
    rows, count = ordered(rows), len(rows)
    if wanted.merge is not None:
        rows = merged(rows, starts(rows.sequence, rows.time, rows.variable), wanted.merge, text)
    counts["merged"] = count - len(rows)
    if wanted.static is None:
        found = once(rows, len(names))
        static = found | timeless
        if found.any():
            apart = found[rows.variable]
            fixed, rows = Measurements.both(fixed, rows[apart]), rows[~apart]
        statics = [name for name, is_static in zip(names, static, strict=True) if is_static]
    else:
        static = explicit
        statics = list(wanted.static)
    place_of = {name: place for place, name in enumerate(names)}
    codes = [place_of[name] for name in statics]
    number = len(opened.ids)
    arrays = arrange(rows, number, np.cumsum(~static) - 1, _bare(opened, rows, time))
    made = Sequences(
        variables=tuple(name for name, is_static in zip(names, static, strict=True) if not is_static),
        statics=tuple(statics),
        static=matrix_of(fixed, number, statics, codes, wanted.merge, text, opened.rows),
        origin=origin,
        row=arrays.pop("row"),
        arrays=arrays,
        counts=counts,
    )
    return with_levels(made, texts, None if wanted.like is None else wanted.like.levels)


def _variables(opened: Opened, wanted: Request) -> tuple[list[str], NDArray[np.int64]]:
    """The names of the variables, and the number of each row's; -1 for rows that are left out."""
    column = opened.column("variable").cast(pl.String)
    distinct = column.unique().drop_nulls()
    if (distinct.str.strip_chars() != distinct).any() or "" in distinct:
        column = _without_blanks(column)
        distinct = column.unique().drop_nulls()
    if column.null_count():
        value = opened.column("value")
        bad = np.flatnonzero((column.is_null() & value.is_not_null()).to_numpy())
        if len(bad):
            raise ValueError(f"each measurement must name its variable, and {opened.rows.table.row(int(bad[0]))} does not.")
    present = distinct.sort().to_list()
    wanted.check_names(present, opened.rows.table.name)
    measured = {*_measured(opened, column, present), *(wanted.static or ())}
    measured -= {*wanted.drop}
    names = [name for name in present if name in measured and not _repeats_the_id(opened, column, name)]
    if wanted.like is not None:
        known = list(wanted.like.in_table((*wanted.like.variables, *wanted.like.statics)))
        there = set(known)
        unknown = [name for name in names if name not in there]
        if unknown:
            row = (column == unknown[0]).arg_max()
            raise unknown_variables(opened, int(row or 0), unknown[0], listed(unknown))
        names = known
    left_out = sorted({*present} - {*names})
    number = column.cast(pl.Enum([*names, *left_out])).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return names, number if not left_out else np.where(number < len(names), number, -1)


def _without_blanks(column: pl.Series) -> pl.Series:
    """Names without blanks around them; null where nothing is left."""
    names = column.str.strip_chars()
    return names.set((names == "").fill_null(False), None)


def _measured(opened: Opened, column: pl.Series, present: list[str]) -> Sequence[str]:
    """The variables that have a value; one that never has, such as a code of MEDS for an event, is none."""
    value = opened.column("value")
    empty = value.is_null() | value.is_nan() if value.dtype.is_float() else value.is_null()
    return column.filter(~empty).unique().drop_nulls().to_list() if empty.any() else present


def _repeats_the_id(opened: Opened, column: pl.Series, name: str) -> bool:
    """Whether a variable is the id again, as in the files of PhysioNet 2012; as an input it would be learned by heart."""
    if name not in ("RecordID", opened.columns.id):
        return False
    chosen = column == name
    value, _ = read_values(opened.column("value").filter(chosen))
    ids = opened.rows.ids().filter(chosen).cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return bool((value == ids).all())


def _values(
    opened: Opened, wanted: Request, names: list[str], code: NDArray[np.int64]
) -> tuple[NDArray[np.float64], dict[str, list[str]], dict[str, int]]:
    """The values, NaN in rows without one; the texts of text variables; and how many values were sentinels."""
    column = opened.column("value")
    value, bad = read_values(column)
    bad = bad[code[bad] >= 0]
    texts: dict[str, list[str]] = {}
    of_variable = np.bincount(code[bad], minlength=len(names))
    for number, name in enumerate(names):
        own = of_variable[number] > 0 if wanted.like is None else name in wanted.like.levels
        rows = np.flatnonzero(code == number) if own else code[:0]
        if own and (wanted.like is not None or is_text(column.gather(rows), int(of_variable[number]))):
            value = value if value.flags.writeable else value.copy()
            value[rows], texts[name] = read_texts(column.gather(rows), wanted.sentinels(name))
            bad = bad[code[bad] != number]
    if len(bad):
        raise bad_value(opened, int(bad[0]), names[code[bad[0]]], column[int(bad[0])])
    sentinel = np.zeros(len(value), np.bool_)
    marked = [() if name in texts else wanted.sentinels(name) for name in names]
    for numbers in {*marked} - {()}:
        applies = np.array([*(each == numbers for each in marked), False])  # the last for -1
        sentinel |= applies[code] & np.isin(value, numbers)
    absent = code < 0
    absent |= sentinel
    return np.where(absent, np.nan, value) if absent.any() else value, texts, {"sentinels": int(sentinel.sum())}


def _timeless(
    opened: Opened, kept: NDArray[np.bool_], code: NDArray[np.int64], names: list[str], explicit: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The variables of MEDS that never have a time, and are static therefore; a ValueError about any other without a time."""
    never = np.zeros(len(names), np.bool_)
    lacking = kept & ~opened.times.known
    if lacking.any():
        if opened.columns.meds:
            number = np.bincount(code[kept], minlength=len(names))
            never = (number > 0) & (np.bincount(code[lacking], minlength=len(names)) == number)
        bad = np.flatnonzero(lacking & ~(never | explicit)[code])
        if len(bad):
            raise no_time(opened, int(bad[0]))
    return never


def _bare(opened: Opened, rows: Measurements, time: NDArray[np.float64]) -> Measurements:
    """The first row with a time of each sequence without a measurement over time: its only step; at 0 if no row has a time."""
    without = np.bincount(rows.sequence, minlength=len(opened.ids)) == 0
    place = np.flatnonzero(without[opened.sequence] & opened.times.known)
    place = place[np.lexsort((time[place], opened.sequence[place]))]
    place = place[starts(opened.sequence[place])]
    without[opened.sequence[place]] = False
    timeless = np.flatnonzero(without)
    sequence, row = np.concatenate([opened.sequence[place], timeless]), np.append(place, np.full(len(timeless), -1))
    at = np.append(time[place], np.zeros(len(timeless)))
    order = np.argsort(sequence, kind="stable")
    return Measurements(sequence, at, np.zeros_like(sequence), np.zeros(len(sequence)), row)[order]
