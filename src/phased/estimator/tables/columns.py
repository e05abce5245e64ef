"""Which column of a table is the id, the time, the variable and the value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from phased.estimator.settings import Layout, Settings
from phased.estimator.tables.csv_file import Kinds
from phased.notice import warn

# In order of preference: this library's names, those of MEDS, those of PhysioNet 2012.
KNOWN = {
    "id": ("id", "subject_id", "RecordID"),
    "time": ("time", "Time"),
    "variable": ("variable", "code", "Parameter"),
    "value": ("value", "numeric_value", "Value"),
}
NUMBERED = ("", "Unnamed: 0", "__index_level_0__")  # numbers of rows, as pandas and R write them beside the columns
INDEX = "If it is the index of the frame, call reset_index() first."
MEDS = {"id": "subject_id", "time": "time", "variable": "code", "value": "numeric_value"}


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

    @property
    def meds(self) -> bool:
        """Whether they are those of MEDS, where a row without a time is static."""
        return self.names == MEDS


def find(role: str, given: str | None, like: Mapping[str, str], present: Sequence[str], where: str) -> str:
    """The column of a role: the given one, the one of the table read before, or one with a known name."""
    if given is not None:
        if given not in present:
            raise ValueError(f"{where} must have the column {given!r} ({role}=), got {listed(present)}. {_index_hint(present)}")
        return given
    for name in (*([like[role]] if role in like else []), *KNOWN[role]):
        if name in present:
            return name
    known = " or ".join(map(repr, KNOWN[role]))
    raise ValueError(
        f"{where} must have a column {known}, got {listed(present)}. Name it: {role}=... {_index_hint(present)}".strip()
    )


def resolve(
    present: Sequence[str],
    where: str,
    *,
    id: str | None,
    time: str | None,
    variable: str | Sequence[str] | None,
    value: str | None,
    layout: Layout | None,
    like: Settings,
    drop: Sequence[str],
    files_are_sequences: bool = False,
) -> Columns:
    """The columns of a table whose columns are `present`."""
    before = like.columns
    unnamed = files_are_sequences and id is None and before.get("id") not in present
    key = None if unnamed else find("id", id, before, present, where)
    clock = find("time", time, before, present, where)
    check_different({"id": key, "time": clock})
    one = variable if isinstance(variable, str) else None
    several = None if variable is None or one is not None else tuple(variable or ())
    usual = _usual(present, one, value, before)
    layout = layout or ("wide" if several is not None else like.layout or usual)
    forced: Layout | None = layout if layout != usual else None
    if layout == "long":
        if several is not None:
            raise ValueError(f"variable must be one column in a long table, got {listed(several)}. Use layout='wide'.")
        names = find("variable", one, before, present, where), find("value", value, before, present, where)
        check_different({"id": key, "time": clock, "variable": names[0], "value": names[1]})
        return Columns(key, clock, *names, layout=forced)
    if one is not None or value is not None:
        raise ValueError(
            f"a wide table has a column per variable: pass variable=[...] or nothing, got variable={one!r}, value={value!r}."
        )
    there, unused = set(present), {key, clock, *drop}
    if several is None and (rows := there & {*NUMBERED} - unused - {*like.variables, *like.statics}):
        warn(f"{rows.pop()!r} of {where} numbers the rows, and is left out. Give the column another name to use it.")
        unused |= {*NUMBERED}
    columns = tuple(name for name in present if name not in unused) if several is None else several
    selected = like.selected and several is None
    before_names = like.in_table((*like.variables, *like.statics))
    if selected:
        wanted = set(before_names)
        columns = tuple(name for name in columns if name in wanted)
    for name in columns:
        check_different({"id": key, "time": clock, "variable": name})
        if name not in there:
            raise ValueError(f"{where} must have the column {name!r} (variable=), got {listed(present)}.")
    if not columns:
        which = f" of the variables {listed(before_names)}" if selected else " besides id and time"
        raise ValueError(f"{where} must have a column{which}, got {listed(present)}.")
    left_out = set(drop)
    dropped = tuple(name for name in present if name in left_out)
    wide = tuple(name for name in columns if name not in left_out)
    return Columns(key, clock, wide=wide, dropped=dropped, layout=forced, selected=selected or several is not None)


def check_different(roles: Mapping[str, str | None]) -> None:
    """Raise a ValueError if one column has two roles."""
    for role, name in roles.items():
        first = next(each for each, other in roles.items() if other == name)
        if name is not None and first != role:
            raise ValueError(f"{first} and {role} must be two columns, got {name!r} for both. Name another one: {role}=...")


def _usual(present: Sequence[str], variable: str | None, value: str | None, before: Mapping[str, str]) -> Layout:
    """The layout that the names of the columns say: long if there are columns of variables and values."""
    named = [
        variable or next((name for name in (before.get("variable"), *KNOWN["variable"]) if name in present), None),
        value or next((name for name in (before.get("value"), *KNOWN["value"]) if name in present), None),
    ]
    return "wide" if None in named and not (variable or value) else "long"


def listed(names: Sequence[object], most: int = 10) -> str:
    """Names for a message: the first ones, and how many more there are."""
    text = ", ".join(repr(name) for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "") if names else "none"


def _index_hint(present: Sequence[str]) -> str:
    """What may be wrong where a frame has few columns."""
    return INDEX if len(present) <= 3 else ""
