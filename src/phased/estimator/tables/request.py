"""How a table is to be read: the arguments of `Events.read`, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator.settings import EVERY, Merge, Settings, marks
from phased.estimator.tables.columns import listed
from phased.estimator.tables.merging import MERGES
from phased.estimator.units import unit_name

Missing = float | Sequence[float] | Mapping[str, float | Sequence[float]]


@dataclass(frozen=True)
class Request:
    """What was asked for, completed by the settings of the table read before (`like`).

    Args:
        unit: of the times; None if not given.
        static: names; None: found in the data.
        missing: sentinels by variable, "*" for the others.
        merge: one value from several at one time; None makes steps of them.
        drop: variables to leave out.
        like: settings of the table read before, or None.
    """

    unit: str | None
    static: tuple[str, ...] | None
    missing: Mapping[str, tuple[float, ...]]
    merge: Merge | None
    drop: tuple[str, ...]
    like: Settings | None

    def sentinels(self, name: str) -> tuple[float, ...]:
        """The numbers that stand for a missing value of a variable."""
        return marks(self.missing, name)

    def is_static(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each of the names was given as static."""
        static = set(self.static or ())
        return np.array([name in static for name in names], np.bool_)

    def check_names(self, present: Sequence[str], what: str) -> None:
        """Raise a ValueError if a name in an argument does not occur; a table read like another may lack variables."""
        if self.like is not None:
            return
        there = {EVERY, *present}
        for argument, names in (("static", self.static or ()), ("missing", self.missing), ("drop", self.drop)):
            for name in names:
                if name not in there:
                    raise ValueError(f"{argument} must name variables of {what}, got {name!r}. It has {listed(present, 50)}.")


def make_request(
    unit: str | None, static: Sequence[str] | None, missing: Missing | None, merge: Any, drop: Sequence[str], like: Any
) -> Request:
    """The arguments of `Events.read`; what is not given comes from `like`."""
    settings = like if isinstance(like, Settings) or like is None else getattr(like, "settings", like)
    if not isinstance(settings, Settings | None):
        raise TypeError(f"like must be Events, or the settings of Events, got {type(like).__name__}.")
    if merge is not None and merge not in MERGES:
        raise ValueError(f"merge must be None or one of {', '.join(MERGES)}, got {merge!r}.")
    for name, given in (("static", static), ("drop", drop)):
        if isinstance(given, str) or not isinstance(given, Iterable | None):
            raise TypeError(f"{name} must be a list of names, got {given!r}. Write {name}=[{given!r}].")
    for name in sorted({*(static or ())} & {*drop}):
        raise ValueError(f"a variable must be either in static or in drop, got {name!r} in both. Leave it out of one.")
    named = None if unit is None else unit_name(unit)
    if settings is None:
        return Request(named, None if static is None else tuple(static), by_name(missing), merge, tuple(drop), None)
    if named is not None and named != settings.unit:
        raise ValueError(f"unit must be {settings.unit!r}, as in the table read before, got {named!r}. Convert the times.")
    statics = settings.in_table(settings.statics)
    if static is not None and set(static) != set(statics):
        raise ValueError(f"static must be {listed(statics)}, as in the table read before, got {listed(static)}.")
    return Request(
        unit=settings.unit or None,
        static=statics,
        missing=settings.missing if missing is None else by_name(missing),
        merge=merge or settings.merge,
        drop=(*settings.drop, *(name for name in drop if name not in settings.drop)),
        like=settings,
    )


def by_name(missing: Missing | None) -> dict[str, tuple[float, ...]]:
    """Sentinels by the name of their variable."""
    named = missing if isinstance(missing, Mapping) else {} if missing is None else {EVERY: missing}
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
