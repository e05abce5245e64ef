"""Settings with which a table is read: arguments of `Events.read`, completed by the table, and saved with a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from phased.estimator.units import unit_name

Layout = Literal["long", "wide"]
Merge = Literal["mean", "sum", "last", "first", "max", "min"]
Clock = Literal["number", "date"]

EMPTY = ("", "na", "n/a", "nan", "null", "none")  # texts of an empty cell, in small letters
OTHER = "other"  # the level of all texts without a level
EVERY = "*"  # in `Settings.missing`: all variables without an entry
LAYOUTS: dict[str, Layout | None] = {"auto": None, "long": "long", "wide": "wide"}


def indicator(name: str, level: str) -> str:
    """Return the name of the variable that is 1 where a text variable has this level."""
    return f"{name}={level}"


@dataclass(frozen=True)
class Settings:
    """Settings with which a table is read. They are part of a saved model, and `phased.fields` writes and reads them.

    Args:
        unit: of the times, "" if unknown.
        clock: "number", or "date" where times count from each sequence's first event.
        variables: names measured over time, in order. Before a table is read: the columns of a wide table that were selected.
        statics: names known once per sequence, in order. None until a table is read, if the data determine it.
        columns: columns of id, time, and, in a long table, variable and value.
        missing: variable to the numbers that stand for a missing value, "*" for all variables without an entry.
        merge: rule that makes one value of several at one time, or None to make steps of the values.
        drop: variables that are left out.
        layout: "long" or "wide", or None if the names of the columns determine it.
        selected: whether `variable=[...]` selected columns of a wide table. All other columns are left out.
        levels: the levels of each text variable. `variables` and `statics` contain "name=level" for each.
        labels: columns of id, time and target in the table of labels, as far as they were given; or target and horizon of a
            target from the table itself.
        offset: whether the dates had an offset from UTC, or None if unknown.

    Example:
        >>> from phased.estimator.settings import Settings
        >>> from phased.fields import decode, encode
        >>> settings = Settings(unit="h", variables=("HR",), missing={"Height": (-1.0,)})
        >>> decode(Settings, encode(settings)) == settings
        True
    """

    unit: str = ""
    clock: Clock = "number"
    variables: tuple[str, ...] = ()
    statics: tuple[str, ...] | None = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    merge: Merge | None = None
    drop: tuple[str, ...] = ()
    layout: Layout | None = None
    selected: bool = False
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    offset: bool | None = None

    @classmethod
    def asked(
        cls,
        *,
        unit: str | None = None,
        static: Any = None,
        missing: Any = None,
        layout: str = "auto",
        merge: Any = None,
        drop: Any = None,
        **columns: Any,
    ) -> Settings:
        """Return the arguments of `Events.read`, checked: all but these are columns by their role."""
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}.")
        if merge is not None and merge not in get_args(Merge):
            raise ValueError(f"merge must be None or one of {', '.join(get_args(Merge))}, got {merge!r}.")
        check_lists(static=static, drop=drop)
        for name in sorted({*(static or ())} & {*(drop or ())}):
            raise ValueError(f"a variable must be either in static or in drop, got {name!r} in both. Leave it out of one.")
        columns = {role: name for role, name in columns.items() if name is not None}
        selected = None if isinstance(columns.get("variable"), str) else columns.pop("variable", None)
        return cls(
            unit="" if unit is None else unit_name(unit),
            variables=() if selected is None else tuple(selected),
            statics=None if static is None else tuple(static),
            columns=columns,
            missing=by_name(missing),
            merge=merge,
            drop=tuple(drop or ()),
            layout=LAYOUTS[layout],
            selected=selected is not None,
        )

    def completed(self, like: Settings) -> Settings:
        """Return these arguments, completed by the settings of the table read before."""
        if self.unit not in ("", like.unit):
            raise ValueError(f"unit must be {like.unit!r}, as in the table read before, got {self.unit!r}. Convert the times.")
        statics = like.in_table(like.statics or ())
        if self.statics is not None and {*self.statics} != {*statics}:
            raise ValueError(f"static must be {listed(statics)}, as in the table read before, got {listed(self.statics)}.")
        return replace(
            like,
            statics=statics,
            missing=self.missing or like.missing,
            merge=self.merge or like.merge,
            drop=(*like.drop, *(name for name in self.drop if name not in like.drop)),
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables of a table that `variables` and `statics` are made of."""
        return self.in_table((*self.variables, *(self.statics or ())))

    @property
    def indicators(self) -> frozenset[str]:
        """The inputs that are 0 or 1, one for each level of each text variable."""
        return frozenset(indicator(name, level) for name, levels in self.levels.items() for level in levels)

    def in_table(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the variables of a table that these inputs are made of: "sex" for "sex=female" and "sex=male"."""
        text = {indicator(name, level): name for name, levels in self.levels.items() for level in levels}
        return tuple(dict.fromkeys(text.get(name, name) for name in names))

    def marks(self, name: str) -> tuple[float, ...]:
        """The numbers that stand for a missing value of a variable, also rounded to float32 and float16."""
        numbers = self.missing.get(name, self.missing.get(EVERY, ()))
        with np.errstate(over="ignore"):
            return tuple(dict.fromkeys(float(of(number)) for of in (float, np.float32, np.float16) for number in numbers))


def check_lists(**arguments: Any) -> None:
    """Raise a TypeError for an argument that is no list of names, such as one name."""
    for name, given in arguments.items():
        if isinstance(given, str) or not isinstance(given, Iterable | None):
            raise TypeError(f"{name} must be a list of names, got {given!r}. Write {name}=[{given!r}].")


def by_name(missing: Any) -> dict[str, tuple[float, ...]]:
    """Return the numbers that stand for a missing value by the name of their variable."""
    if missing is None:
        return {}
    named = missing if isinstance(missing, Mapping) and missing else {EVERY: missing or ()}
    found = {}
    for name, each in named.items():
        try:
            numbers = np.atleast_1d(np.asarray(each, np.float64))
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(
                f"missing must be a number, a list of numbers or a dict of them by variable, got {each!r}."
            ) from error
        if not np.isfinite(numbers).all():
            raise ValueError(f"missing must be finite, got {each!r} for {name!r}. Leave it out: NaN is never a value.")
        found[str(name)] = tuple(numbers.tolist())
    return found


def listed(names: Sequence[object], most: int = 10) -> str:
    """Return the first names and the number of others, for a message."""
    text = ", ".join(repr(name) for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "") if names else "none"


def repeated(names: Iterable[Any]) -> list[Any]:
    """Return the names that occur twice or more."""
    return [name for name, count in Counter(names).items() if count > 1]
