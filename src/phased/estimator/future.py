"""Targets from future measurements: the next value of a variable, or the value a fixed time later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator.settings import indicator, listed
from phased.estimator.units import in_times

if TYPE_CHECKING:
    from phased.estimator.events import Events

SAME = 4  # times are equal if they differ by at most this many roundings: 0.1 + 0.2 is 0.3


def future_values(events: Events, variable: str, horizon: float | str | None) -> NDArray[Any]:
    """Return the target of each step, NaN or None at a step without a target. See `Events.future` for the arguments."""
    at, known = _measured(events, variable)
    if horizon is None:
        place, when = np.searchsorted(at, np.arange(len(events.time)), side="right"), "at a later step"
        found = _in_sequence(events, at, place)
    else:
        ahead = in_times(horizon, events.unit)
        place, found = _later(events, variable, at, known, ahead)
        when = f"exactly {ahead:g} {events.unit}".rstrip() + " later"
    if not found.any():
        gaps = events.gaps()
        steps = f" The gaps between steps are {gaps.min():g} to {gaps.max():g} {events.unit}".rstrip() + "." if len(gaps) else ""
        raise ValueError(f"at least one step must have a value of {variable!r} {when}, got none.{steps}")
    y = np.full(len(events.time), np.nan if known.dtype.kind == "f" else None)
    y[found] = known[place[found]]
    return y


def _measured(events: Events, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the steps at which a variable of the table is measured, and the measured numbers or texts."""
    names = events.settings.in_table(events.variables)
    if name in events.settings.in_table(events.statics):
        raise ValueError(f"the target must be measured over time, got {name!r}, which is static. Choose one of {listed(names)}.")
    if name not in names:
        raise ValueError(f"the target must be a variable of the table, got {name!r}. It has {listed(names, 50)}.")
    levels = events.settings.levels.get(name)
    if levels is None:
        chosen = events.variable == events.variables.index(name)
        return events.step[chosen], events.value[chosen]
    first = events.variables.index(indicator(name, levels[0]))
    level = events.variable.astype(np.int64) - first
    chosen = (level >= 0) & (level < len(levels)) & (events.value == 1)
    return events.step[chosen], np.array(levels, object)[level[chosen]]


def _in_sequence(events: Events, at: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether measurement `place` of each step exists and belongs to the sequence of the step."""
    sequence = events.sequence
    return np.asarray(np.append(sequence[at], -1)[np.minimum(place, len(at))] == sequence)


def _later(
    events: Events, name: str, at: NDArray[np.int64], known: NDArray[Any], ahead: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return index and existence of the first measurement at the wanted time of each step."""
    steps, wanted = len(events.time), events.time + ahead
    slack = SAME * np.spacing(np.maximum(np.abs(wanted), np.abs(events.time)))
    time, sequence = events.time[at], events.sequence
    order = np.lexsort((np.concatenate([wanted - slack, time]), np.concatenate([sequence, sequence[at]])))
    place = np.empty(steps, np.int64)
    place[order[order < steps]] = np.cumsum(order >= steps)[order < steps]  # measurements before the wanted time

    def found(place: NDArray[np.int64]) -> NDArray[np.bool_]:
        in_time: NDArray[np.bool_] = np.append(time, np.inf)[np.minimum(place, len(at))] <= wanted + slack
        return in_time & _in_sequence(events, at, place)

    several = np.flatnonzero(found(place) & found(place + 1))
    for first in place[several][known[place[several]] != known[place[several] + 1]]:
        where = f"in sequence {events.ids[sequence[at[first]]].item()!r} at time {time[first]:g}"
        raise ValueError(
            f"a target must be one value, got {known[first]} and {known[first + 1]} of {name!r} {where}. "
            "Merge the rows of one time (merge: 'last', or another rule)."
        )
    return place, found(place)
