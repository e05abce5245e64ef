"""Checks of sequences against a model, and warnings where a user would go wrong silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from phased import check, notice
from phased.clock import EXACT_FLOAT64
from phased.estimator.describe import suspicious
from phased.estimator.events import Events
from phased.estimator.ragged import offsets
from phased.estimator.scaling import LARGEST, Scaling
from phased.estimator.settings import Settings

FAR = 1.5
"""A sequence this much longer than the longest one of the training is warned of."""
SHORT = 0.02
"""So is data whose median span is this part of the training's, as that of another unit of time is."""


class Columns(NamedTuple):
    """What a model reads: names and unit, in the order of its inputs."""

    variables: tuple[str, ...]
    statics: tuple[str, ...]
    unit: str

    @classmethod
    def of(cls, events: Events) -> Self:
        """Of a model that is trained on these sequences."""
        return cls(events.variables, events.statics, events.unit)


def as_events(X: Any, columns: Columns | None = None) -> Events:
    """Events as they are, or a list of (times, values); the latter has the names and the unit of a model."""
    if isinstance(X, Events):
        return X
    if isinstance(X, (str, bytes)) or not isinstance(X, (Sequence, np.ndarray)):
        raise TypeError(f"X must be Events or a list of (times, values), got {check.kind(X)}. Events.read() reads tables.")
    for at, pair in enumerate(X):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"X must be Events or a list of (times, values), got {check.kind(pair)} as item {at}.")
    if not len(X):
        raise ValueError("X must have at least one sequence, got none.")
    variables, unit = (None, "") if columns is None else (columns.variables, columns.unit)
    return Events.of([times for times, _ in X], [values for _, values in X], variables=variables, unit=unit)


def matched(events: Events, columns: Columns) -> Events:
    """The sequences with the model's variables in its order; a ValueError for unknown ones or another unit."""
    if events.unit != columns.unit:
        raise ValueError(
            f"X must have times in {columns.unit!r}, the unit of the model, got {events.unit!r}. Read it with like= and unit=."
        )
    if events.variables == columns.variables and events.statics == columns.statics:
        return events
    for kind, names, known in (
        ("variables", events.variables, columns.variables),
        ("statics", events.statics, columns.statics),
    ):
        strange = sorted({*names} - {*known})
        if strange:
            raise ValueError(
                f"{kind} of X must be known to the model, {', '.join(map(repr, known)) or 'none'}, got {strange[0]!r}. "
                f"Read X with like=, the Events of the training."
            )
    place = {name: index for names in (columns.variables, columns.statics) for index, name in enumerate(names)}
    variable = np.array([place[name] for name in events.variables], np.int32)[events.variable]
    order = np.lexsort((variable, events.step))  # a step's measurements are in the order of the variables
    static = np.full((len(events), len(columns.statics)), np.nan)
    static[:, [place[name] for name in events.statics]] = events.static
    return replace(
        events,
        variables=columns.variables,
        statics=columns.statics,
        variable=variable[order],
        value=events.value[order],
        static=static,
    )


def unmarked(events: Events, settings: Settings) -> Events:
    """The sequences without the numbers that stand for "not known" in the table of the training."""
    if not settings.missing:
        return events
    marked, marks = np.zeros(len(events.value), bool), [settings.marks(name) for name in events.variables]
    for found in {*marks} - {()}:
        marked |= np.array([each == found for each in marks])[events.variable] & np.isin(events.value, found)
    static = events.static.copy()
    for number, name in enumerate(events.statics):
        static[np.isin(static[:, number], settings.marks(name)), number] = np.nan
    entry = offsets(np.bincount(events.step[~marked], minlength=len(events.time)))
    return replace(events, variable=events.variable[~marked], value=events.value[~marked], entry=entry, static=static)


def check_range(events: Events) -> None:
    """A ValueError for a time, value or static value that is too large."""
    for step in np.flatnonzero(np.abs(events.time) > EXACT_FLOAT64)[:1]:
        raise beyond("time", events.time[step], where(events, step))
    for number in np.flatnonzero(np.abs(events.value) > LARGEST)[:1]:
        step = int(np.searchsorted(events.entry, number, "right")) - 1
        raise beyond(events.variables[events.variable[number]], events.value[number], where(events, step))
    for row, column in np.argwhere(np.abs(events.static) > LARGEST)[:1]:
        raise beyond(events.statics[column], events.static[row, column], f"in sequence {events.ids[row].item()!r}")


def beyond(name: str, value: Any, where: str) -> ValueError:
    """The error about a number that is not finite or too large; times beyond 2**53 are rounded."""
    given = check.as_float(value)
    if not np.isfinite(given):
        return ValueError(f"{name} must be finite, got {given} {where}. Leave out what was not measured.")
    limit, cure = ("2**53", "Subtract the start of the sequence") if name == "time" else (f"{LARGEST:g}", "Change its unit")
    return ValueError(f"{name} must be from -{limit} to {limit}, got {given:g} {where}. {cure}, or leave it out.")


def where(events: Events, step: Any) -> str:
    """The sequence and the time of a step, for a message."""
    return f"in sequence {events.ids[events.sequence[step]].item()!r} at time {events.time[step]:g}"


def check_reach(events: Events, since: NDArray[np.float64], scaling: Scaling) -> None:
    """A ValueError for a step too long after the first one of its sequence; `since` is in median gaps."""
    for step in np.flatnonzero(since > scaling.reach)[:1]:
        raise too_late(since[step], scaling, where(events, step))


def too_late(since: float, scaling: Scaling, where: str) -> ValueError:
    """The error about a time too long after the first step; `since` is in median gaps."""
    longest, got = scaling.reach * scaling.gap, since * scaling.gap
    return ValueError(f"time must be at most {longest:g} after the first step, got {got:g} {where}. Check the unit of time.")


def check_answers(events: Events, outputs: NDArray[np.float64], every_step: bool) -> None:
    """A ValueError for outputs of a network, of each sequence or each step, that are NaN or infinite."""
    for at, *column in np.argwhere(~np.isfinite(outputs))[:1]:
        raise not_finite(outputs[at, *column], where(events, at) if every_step else f"in sequence {events.ids[at].item()!r}")


def not_finite(answer: float, where: str) -> ValueError:
    """The error about an answer that is NaN or infinite."""
    return ValueError(f"the answer must be finite, got {answer} {where}. Check the weights of the model, or fit it again.")


def warn_spans(events: Events, typical: float, longest: float) -> None:
    """Warn of sequences much longer than those of the training, or of data with a much shorter median span."""
    several = np.flatnonzero(events.lengths > 1)
    found = events.spans()[several]
    unit = f" {events.unit}" if events.unit else ""
    if not len(found) or not longest:
        return
    if found.max() > FAR * longest:
        which = events.ids[several[found.argmax()]].item()
        notice.warn(
            f"Sequence {which!r} spans {found.max():.4g}{unit}; the longest of the training {longest:.4g}{unit}. "
            f"The answer for it was not tested. Check the unit of time, or cut the sequence.",
        )
    elif len(found) > 1 and float(np.median(found)) < SHORT * typical:
        notice.warn(
            f"The sequences span {np.median(found):.4g}{unit} (median); those of the training {typical:.4g}{unit}. "
            f"Check the unit of time.",
        )


def warn_sentinels(events: Events) -> None:
    """Warn of numbers such as -1 or -999 that probably stand for "not known"."""
    columns = dict(zip(events.variables, events.by_variable(events.value), strict=True))
    columns |= {name: column[np.isfinite(column)] for name, column in zip(events.statics, events.static.T, strict=True)}
    found = [f"{name} = {mark:g} ({count} times)" for name, column in columns.items() for mark, count, *_ in suspicious(column)]
    if found:
        notice.warn(
            f"Some values look like marks for 'not known': {', '.join(found[:5])}{', ...' if len(found) > 5 else ''}. They are "
            f"used as numbers. To leave them out, name them when the table is read (missing: a number for each variable).",
        )


def warn_never_open(closed: int, units: int) -> None:
    """Warn of units that open at no step of the training sequences."""
    if closed:
        notice.warn(
            f"{closed} of {units} units open at no step of the training sequences, and contribute nothing. "
            f"Choose a larger budget (updates) or fewer units.",
        )
