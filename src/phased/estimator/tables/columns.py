"""The columns of id, time, variable and value, and a table with the ids and times of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import check_rounding
from phased.estimator.settings import EVERY, Layout, Settings, listed
from phased.estimator.tables.cells import encode, is_text, read_texts
from phased.estimator.tables.formats import KNOWN, MEMORY, Kinds, Source, Table
from phased.estimator.tables.times import Times, read_clock
from phased.estimator.units import in_unit
from phased.notice import warn

MEDS = {"id": "subject_id", "time": "time", "variable": "code", "value": "numeric_value"}
FILE = "(file)"  # the column of ids where every file is a sequence
NUMBERED = {"", "Unnamed: 0", "__index_level_0__"}  # numbers of rows, as pandas and R write them beside the columns


def find(role: str, source: Source, given: str | None, before: Mapping[str, str]) -> str:
    """Return the column of a role: the given column, the column of the table read before, or a column with a known name."""
    hint = ""
    if source.name == MEMORY and len(source.columns) <= 3:
        hint = " If it is the index of the frame, call reset_index() first."
    if given is not None:
        check_present(role, given, source, hint)
        return given
    for name in (before.get(role), *KNOWN[role]):
        if name in source.columns:
            return str(name)
    known, present = " or ".join(map(repr, KNOWN[role])), listed(source.columns)
    raise ValueError(f"{source.name} must have a column {known}, got {present}. Name another one ({role}: its name).{hint}")


def check_present(role: str, name: str, source: Source, hint: str = "") -> None:
    """Raise a ValueError if a table does not have the column that was given for a role."""
    if name not in source.columns:
        raise ValueError(f"{source.name} must have the column {name!r} ({role}), got {listed(source.columns)}.{hint}")


def check_different(roles: Mapping[str, str | None]) -> None:
    """Raise a ValueError if one column has two roles."""
    for role, name in roles.items():
        first = next(each for each, other in roles.items() if other == name)
        if name is not None and first != role:
            raise ValueError(
                f"{first} and {role} must be two columns, got {name!r} for both. Name another one ({role}: its name)."
            )


def resolve(source: Source, asked: Settings, like: Settings | None) -> tuple[Settings, tuple[str, ...], tuple[str, ...]]:
    """Return the settings with the columns of a table, the variables of a wide table, and its columns that are left out.

    Args:
        source: the table.
        asked: arguments of the call.
        like: settings of the table read before, which complete the arguments.
    """
    how, like = (asked, Settings()) if like is None else (asked.completed(like), like)
    given, before, drop = asked.columns, like.columns, {*how.drop}
    unnamed = source.files_are_sequences and "id" not in given and before.get("id") not in source.columns
    names = {role: find(role, source, given.get(role), before) for role in (["time"] if unnamed else ["id", "time"])}
    check_different(names)
    usual = _usual(source, given, before)
    layout = asked.layout or ("wide" if asked.selected else like.layout or usual)
    # A layout is remembered if the names of the columns say otherwise.
    how = replace(how, layout=layout if layout != usual else None if asked.layout else like.layout)
    if layout == "long":
        if asked.selected:
            raise ValueError(f"variable must be one column in a long table, got {listed(asked.variables)}. Use layout='wide'.")
        names |= {role: find(role, source, given.get(role), before) for role in ("variable", "value")}
        check_different(names)
        return replace(how, columns=names, selected=like.selected), (), ()
    if given.keys() & {"variable", "value"}:
        raise ValueError(
            "a wide table has a column per variable: pass variable=[...] or nothing, "
            f"got variable={given.get('variable')!r}, value={given.get('value')!r}."
        )
    columns = asked.variables if asked.selected else _others(source, {*names.values(), *drop}, like)
    if lacking := {*columns} - ({*source.columns} - {*names.values()}):
        name = next(name for name in columns if name in lacking)
        check_different({**names, "variable": name})
        check_present("variable", name, source)
    wide = tuple(name for name in columns if name not in drop)
    if not wide:
        which = f" of the variables {listed(like.inputs)}" if like.selected else " besides id and time"
        raise ValueError(f"{source.name} must have a column{which}, got {listed(source.columns)}.")
    how = replace(how, columns=names, selected=like.selected or asked.selected)
    return how, wide, tuple(name for name in source.columns if name in drop)


def _others(source: Source, unused: set[str], like: Settings) -> tuple[str, ...]:
    """The variables of a wide table: the columns without another role, and without the numbers of the rows."""
    wanted = {*like.inputs}
    if rows := {*source.columns} & NUMBERED - unused - wanted:
        warn(f"{rows.pop()!r} of {source.name} numbers the rows, and is left out. Give the column another name to use it.")
        unused |= NUMBERED
    return tuple(name for name in source.columns if name not in unused and (name in wanted or not like.selected))


def _usual(source: Source, given: Mapping[str, str], before: Mapping[str, str]) -> Layout:
    """The layout that the names of the columns say: long if there are columns of variables and values."""
    if given.keys() & {"variable", "value"}:
        return "long"
    return "long" if all({before.get(role), *KNOWN[role]} & {*source.columns} for role in ("variable", "value")) else "wide"


@dataclass(frozen=True)
class Opened:
    """A table in memory, with the sequence and the time of each row.

    Args:
        table: its rows.
        how: settings with which it is read.
        like: settings of the table read before, or None.
        wide: the variables of a wide table.
        dropped: columns of a wide table that are left out.
        ids: in the order of their first appearance.
        sequence: the number of each row's id.
        times: of each row.
    """

    table: Table
    how: Settings
    like: Settings | None
    wide: tuple[str, ...]
    dropped: tuple[str, ...]
    ids: NDArray[Any]
    sequence: NDArray[np.int64]
    times: Times

    def column(self, role: str) -> pl.Series:
        """The column of a role that this table has."""
        return self.table.frame[self.how.columns[role]]

    def clock(self, used: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.datetime64] | None]:
        """Return the time of each row in the unit. For dates also return the date of the first used row of each sequence."""
        if self.times.clock == "number":
            return self.times.ticks, None
        never = np.iinfo(np.int64).max
        origin = np.full(len(self.ids), never)
        for mask in (used & self.times.known, self.times.known):  # a sequence without used rows counts from any
            open_ = mask & (origin[self.sequence] == never)
            np.minimum.at(origin, self.sequence[open_], self.times.ticks[open_])
        dates = origin.astype("datetime64[us]")
        dates[origin == never] = np.datetime64("NaT")
        return in_unit(self.times.ticks - np.where(origin == never, 0, origin)[self.sequence], self.times.unit), dates

    def names(self, present: Sequence[str], row_of: Callable[[str], int] = lambda name: 0) -> list[str]:
        """The variables in order: these, or all of the table read before. `row_of` returns a row with a variable."""
        if self.like is None:
            return list(present)
        known = dict.fromkeys(self.like.inputs)
        unknown = [name for name in present if name not in known]
        if unknown:
            names, where = listed(unknown), self.table.where(row_of(unknown[0]), unknown[0])
            raise ValueError(
                f"variables must be those of the table read before, got {names}, first at {where}. "
                f"Leave them out (drop: {names})."
            )
        return list(known)

    def check_names(self, present: Sequence[str]) -> None:
        """Raise a ValueError if a name in an argument does not occur. A table that is read like another may lack variables."""
        there = {EVERY, *present}
        arguments = {"static": self.how.statics or (), "missing": self.how.missing, "drop": self.how.drop}
        for argument, names in arguments.items() if self.like is None else ():
            for name in names:
                if name not in there:
                    raise ValueError(
                        f"{argument} must name variables of {self.table.name}, got {name!r}. It has {listed(present, 50)}."
                    )

    def texts(self, name: str, column: pl.Series, bad: int) -> tuple[NDArray[np.float64], list[str]] | None:
        """Return indices and distinct texts of a text variable, or None for numbers. `bad`: number of cells without a number."""
        if is_text(column, bad) if self.like is None else name in self.like.levels:
            return read_texts(column, self.how.marks(name))
        return None

    def bad_value(self, row: int, variable: str, cell: object) -> ValueError:
        """The error about a value that is no finite number."""
        return ValueError(
            f"a value must be a finite number, got {cell!r} at {self.table.where(row, variable)}. Leave a missing value empty, "
            f"write 36,6 as 36.6, encode text as numbers (one variable of 0 and 1 per category), or leave the variable out "
            f"(drop: {variable!r})."
        )

    def no_time(self, row: int, variable: str | None = None) -> ValueError:
        """The error about a row with a missing or infinite time."""
        cure = ", or name the variable as static if it is known from the start" if self.like is None else ""
        return ValueError(
            f"each measurement must have a finite time, got {self.table.cell(self.how.columns['time'], row)} at "
            f"{self.table.where(row, variable)}. Remove the row{cure}."
        )


def open_table(source: Source, asked: Settings, like: Settings | None) -> Opened:
    """The rows of a source with their ids and times. `asked` and `like`: as for `resolve`."""
    how, wide, dropped = resolve(source, asked, like)
    names = {"id": FILE, **how.columns}
    roles: Kinds = {"id": "id", "time": "any", "variable": "text", "value": "text" if how.levels else "number"}
    kinds: Kinds = {name: "text" if name in how.levels else "number" for name in wide}
    kinds = {**{name: roles[role] for role, name in how.columns.items()}, **kinds}
    table = source.load(kinds, names["id"], names["time"], names.get("variable"))
    if not len(table.frame):
        raise ValueError(f"{source.name} must have at least one row, and has none.")
    ids, sequence = encode(table.ids())
    times = read_clock(table, how.unit, None if like is None else like.clock)
    _check_rounding(table, names["time"], sequence)
    if like is not None and times.unit != like.unit:
        raise ValueError(f"times must be in the unit {like.unit!r}, as in the table read before, got {times.unit!r}.")
    how = replace(how, unit=times.unit, clock=times.clock, offset=times.offset)
    return Opened(table, how, like, wide, dropped, ids, sequence, times)


def _check_rounding(table: Table, name: str, sequence: NDArray[np.int64]) -> None:
    """Raise a ValueError if times are float32, and gaps of a sequence are no larger than its rounding."""
    column = table.frame[name]
    if not column.dtype.is_float() or column.dtype == pl.Float64:
        return
    time = column.fill_null(float("nan")).to_numpy()
    finite = np.flatnonzero(np.isfinite(time))
    order = finite[np.lexsort((time[finite], sequence[finite]))]
    check_rounding(time[order], sequence[order], lambda place: f"at {table.where(int(order[place]))}")
