"""How a table was read, so that another one can be read in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Layout = Literal["long", "wide"]
Merge = Literal["mean", "sum", "last", "first", "max", "min"]
Clock = Literal["number", "date"]

EMPTY = ("", "na", "n/a", "nan", "null", "none")  # texts of an empty cell, in small letters
OTHER = "other"  # the level of texts that are no level of their own
EVERY = "*"  # in `Settings.missing`: the variables that have no entry of their own


def marks(missing: Mapping[str, tuple[float, ...]], name: str) -> tuple[float, ...]:
    """Return the numbers that stand for a missing value of a variable, also as columns of float32 and float16 store them."""
    numbers = missing.get(name, missing.get(EVERY, ()))
    with np.errstate(over="ignore"):
        return tuple(dict.fromkeys(float(of(number)) for of in (float, np.float32, np.float16) for number in numbers))


def indicator(name: str, level: str) -> str:
    """Return the name of the variable that is 1 where a text variable has this level."""
    return f"{name}={level}"


@dataclass(frozen=True)
class Settings:
    """How a table was read. It is part of a saved model, so `phased.fields` can write and read it.

    Args:
        unit: of the times.
        clock: "number", or "date" where times count from each sequence's first event.
        variables: names measured over time, in order.
        statics: names known once per sequence, in order.
        columns: columns of id, time, and, in a long table, variable and value.
        missing: variable to the numbers that stand for a missing value; "*" for all variables without an entry.
        merge: how several values of a variable at one time become one; None makes steps of them.
        drop: variables that are left out.
        layout: "long" or "wide" where the table's columns would have said otherwise; None: they say it.
        selected: whether `variable=[...]` selected columns of a wide table; its other columns are left out.
        levels: for each text variable the levels that are inputs; `variables` and `statics` contain "name=level" for each.
        labels: columns of id, time and target in the table of labels, as far as they were given.
        offset: whether its dates had an offset from UTC; None if that is not known.

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
    statics: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    merge: Merge | None = None
    drop: tuple[str, ...] = ()
    layout: Layout | None = None
    selected: bool = False
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    offset: bool | None = None

    @property
    def indicators(self) -> frozenset[str]:
        """The inputs that are 0 or 1, one for each level of each text variable."""
        return frozenset(indicator(name, level) for name, levels in self.levels.items() for level in levels)

    def in_table(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the variables of a table that these inputs are made of: "sex" for "sex=female" and "sex=male"."""
        text = {indicator(name, level): name for name, levels in self.levels.items() for level in levels}
        return tuple(dict.fromkeys(text.get(name, name) for name in names))

    def marks(self, name: str) -> tuple[float, ...]:
        """The numbers that stand for a missing value of a variable."""
        return marks(self.missing, name)
