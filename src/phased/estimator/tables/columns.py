"""The columns of id, time, variable and value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from phased.estimator.settings import Layout, Settings, listed
from phased.estimator.tables.formats import KNOWN, MEMORY, Source
from phased.notice import warn

MEDS = {"id": "subject_id", "time": "time", "variable": "code", "value": "numeric_value"}
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
