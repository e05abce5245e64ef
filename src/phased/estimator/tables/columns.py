"""Which column of a table is the id, the time, the variable and the value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from phased.estimator.settings import Layout, Settings, listed
from phased.estimator.tables.csv_file import Kinds
from phased.notice import warn

# In order of preference: this library's names, those of MEDS, those of PhysioNet 2012.
KNOWN = {
    "id": ("id", "subject_id", "RecordID"),
    "time": ("time", "Time"),
    "variable": ("variable", "code", "Parameter"),
    "value": ("value", "numeric_value", "Value"),
}
MEDS = {"id": "subject_id", "time": "time", "variable": "code", "value": "numeric_value"}
NUMBERED = {"", "Unnamed: 0", "__index_level_0__"}  # numbers of rows, as pandas and R write them beside the columns
MEMORY = "the table"  # the name of a table that is no file


@dataclass(frozen=True)
class Columns:
    """The columns of a long table, or of a wide one (`wide`: the variables). id is None where every file is a sequence."""

    id: str | None
    time: str
    variable: str | None = None
    value: str | None = None
    wide: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    layout: Layout | None = None  # where the names of the columns say otherwise
    selected: bool = False  # whether the columns of a wide table were named

    @property
    def names(self) -> dict[str, str]:
        """The column of each role that has one."""
        roles = {"id": self.id, "time": self.time, "variable": self.variable, "value": self.value}
        return {role: name for role, name in roles.items() if name is not None}

    def kinds(self, text: Collection[str] = ()) -> Kinds:
        """How a CSV file with these columns is read. `text` names the variables that were text in the table read before."""
        values = {name: None for name in (*self.wide, *([] if text else [self.value])) if name and name not in text}
        texts = [name for name in (self.variable, self.value, *self.wide) if name and name not in values]
        return Kinds([*self.names.values(), *self.wide], list(values), texts, [self.id] if self.id else [])


def find(role: str, given: str | None, before: Mapping[str, str], present: Sequence[str], where: str) -> str:
    """The column of a role: the given one, the one of the table read before, or one with a known name."""
    hint = " If it is the index of the frame, call reset_index() first." if where == MEMORY and len(present) <= 3 else ""
    if given is not None:
        check_present(role, given, present, where, hint)
        return given
    for name in (*([before[role]] if role in before else []), *KNOWN[role]):
        if name in present:
            return name
    known = " or ".join(map(repr, KNOWN[role]))
    raise ValueError(f"{where} must have a column {known}, got {listed(present)}. Name another one ({role}: its name).{hint}")


def check_present(role: str, name: str, present: Collection[str], where: str, hint: str = "") -> None:
    """Raise a ValueError if a table does not have the column that was given for a role."""
    if name not in present:
        raise ValueError(f"{where} must have the column {name!r} ({role}), got {listed([*present])}.{hint}")


def check_different(roles: Mapping[str, str | None]) -> None:
    """Raise a ValueError if one column has two roles."""
    for role, name in roles.items():
        first = next(each for each, other in roles.items() if other == name)
        if name is not None and first != role:
            raise ValueError(
                f"{first} and {role} must be two columns, got {name!r} for both. Name another one ({role}: its name)."
            )


def resolve(present: Sequence[str], where: str, asked: Settings, like: Settings, files_are_sequences: bool) -> Columns:
    """The columns of a table.

    Args:
        present: the names of its columns.
        where: its name.
        asked: what was asked for.
        like: how the table before was read.
        files_are_sequences: whether the id of a row is the name of its file, if no column is given.
    """
    given, before = asked.columns, like.columns
    unnamed = files_are_sequences and "id" not in given and before.get("id") not in present
    id = None if unnamed else find("id", given.get("id"), before, present, where)
    time = find("time", given.get("time"), before, present, where)
    check_different({"id": id, "time": time})
    usual = _usual(present, given, before)
    layout = asked.layout or ("wide" if asked.selected else like.layout or usual)
    forced = layout if layout != usual else None if asked.layout else like.layout
    if layout == "long":
        if asked.selected:
            raise ValueError(f"variable must be one column in a long table, got {listed(asked.variables)}. Use layout='wide'.")
        variable, value = (find(role, given.get(role), before, present, where) for role in ("variable", "value"))
        check_different({"id": id, "time": time, "variable": variable, "value": value})
        return Columns(id, time, variable, value, layout=forced, selected=like.selected)
    if given.keys() & {"variable", "value"}:
        raise ValueError(
            "a wide table has a column per variable: pass variable=[...] or nothing, "
            f"got variable={given.get('variable')!r}, value={given.get('value')!r}."
        )
    columns = asked.variables if asked.selected else _others(present, where, {id, time, *asked.drop, *like.drop}, like)
    there = {*present}
    for name in columns:
        check_different({"id": id, "time": time, "variable": name})
        if name not in there:
            check_present("variable", name, present, where)
    if not columns:
        which = f" of the variables {listed(like.inputs)}" if like.selected else " besides id and time"
        raise ValueError(f"{where} must have a column{which}, got {listed(present)}.")
    left_out = {*asked.drop, *like.drop}
    dropped = tuple(name for name in present if name in left_out)
    wide = tuple(name for name in columns if name not in left_out)
    return Columns(id, time, wide=wide, dropped=dropped, layout=forced, selected=like.selected or asked.selected)


def _others(present: Sequence[str], where: str, unused: set[str | None], like: Settings) -> tuple[str, ...]:
    """The variables of a wide table: the columns without another role, and without the numbers of the rows."""
    wanted = {*like.inputs}
    if rows := {*present} & NUMBERED - unused - wanted:
        warn(f"{rows.pop()!r} of {where} numbers the rows, and is left out. Give the column another name to use it.")
        unused |= NUMBERED
    return tuple(name for name in present if name not in unused and (name in wanted or not like.selected))


def _usual(present: Sequence[str], given: Mapping[str, str], before: Mapping[str, str]) -> Layout:
    """The layout that the names of the columns say: long if there are columns of variables and values."""
    if given.keys() & {"variable", "value"}:
        return "long"
    return "long" if all({before.get(role), *KNOWN[role]} & {*present} for role in ("variable", "value")) else "wide"
