"""Targets from a table, in the order of the sequences or steps of Events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import starts
from phased.estimator.settings import listed
from phased.estimator.tables.cells import empty, filled, id_series, numbers_of
from phased.estimator.tables.columns import check_different, check_present, find
from phased.estimator.tables.formats import Kinds, Source, Table, open_source
from phased.estimator.tables.times import read_clock
from phased.estimator.units import in_unit

if TYPE_CHECKING:
    from phased.estimator.events import Events

BOTH = "`labelled` keeps the sequences that have both."


def read_labels(
    events: Events, source: Any, *, id: str | None, target: str | None, time: str | None, partial: bool
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the sequences with a target and the targets. With `time`, a target per step, NaN or None at a step without a target.

    Args:
        events: sequences or steps of the targets.
        source: a table.
        id: its column of ids.
        target: its column of targets.
        time: its column of times, for a target per step.
        partial: leave out sequences without a target and targets without a sequence, instead of raising.
    """
    opened = open_source(source)
    before = {role: name for role, name in events.settings.labels.items() if name in opened.columns}
    key = find("id", opened, id, {**events.settings.columns, **before})
    time = before.get("time") if time is None and not partial else time
    name = _target(opened, target or before.get("target"), key, time)
    if name in events.settings.in_table((*events.variables, *events.statics)):
        raise ValueError(
            f"the target must not be among the inputs, got {name!r}. Leave it out of them when they are read (drop: {name!r})."
        )
    if time is not None:
        check_present("time", time, opened)
    check_different({"id": key, "time": time, "target": name})
    kinds: Kinds = {key: "id", name: "key", **({time: "key"} if time else {})}
    rows = opened.load(kinds, key, time)
    sequence = _sequence_of(events, rows.ids())
    column = _without_blanks(rows.frame[name])
    present = _present(column)
    for row in column.is_infinite().arg_true() if column.dtype.is_float() else ():
        raise ValueError(f"a target must be finite, got {column[row]} at {rows.where(row)}. Correct or remove it.")
    if not partial:
        _refuse_strangers(rows, np.where(present, sequence, 0), time)
    for row in np.flatnonzero(~present)[:1] if time is None and not partial else ():
        raise ValueError(f"each target must be known, got none at {rows.where(int(row))}. {BOTH}")
    place = sequence if time is None else _step_of(events, rows, sequence, present)
    chosen = np.flatnonzero(present & (place >= 0))
    place, targets = _one_each(rows, chosen, place[chosen], column.gather(chosen), name, time)
    if time is not None:
        return place, _at_every_step(place, targets, len(events.time), opened.name)
    _refuse_unlabelled(events, place, opened.name, partial)
    return place, _array(targets)


def _target(source: Source, target: str | None, *others: str | None) -> str:
    """The column of targets."""
    left = [name for name in source.columns if name not in others]
    if target is None and len(left) != 1 and "target" not in left:
        among = f"in {source.name}, one of {listed(left)}"
        raise ValueError(f"target must name the column of targets {among}. Name it (target: its name).")
    name = target if target is not None else "target" if "target" in left else left[0]
    check_present("target", name, source)
    return name


def _array(targets: pl.Series) -> NDArray[Any]:
    """Targets as integers, floats, booleans or text."""
    return np.array(targets.to_list()) if targets.dtype == pl.String else targets.to_numpy()


def _at_every_step(place: NDArray[np.int64], targets: pl.Series, steps: int, where: str) -> NDArray[Any]:
    """The targets of these steps, and NaN or, where targets are no numbers, None at the others."""
    if not len(place):
        raise ValueError(f"at least one event must have a target in {where}, got none. Fill its column of targets.")
    known = _array(targets)
    if len(place) == steps:
        return known
    y = np.full(steps, np.nan) if known.dtype.kind in "iuf" else np.full(steps, None)
    y[place] = known
    return y


def _present(column: pl.Series) -> NDArray[np.bool_]:
    """Return whether each target is known."""
    return (~empty(filled(column) if column.dtype == pl.String else column)).to_numpy()


def _without_blanks(column: pl.Series) -> pl.Series:
    """Return text targets without surrounding blanks, and decimal numbers as floats."""
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    return column.str.strip_chars() if column.dtype == pl.String else column


def _sequence_of(events: Events, ids: pl.Series) -> NDArray[np.int64]:
    """Return the sequence of each id, -1 for an id without events."""
    own = id_series(pl.Series("ids", events.ids.tolist()))
    if ids.dtype != own.dtype:  # 7 in one table is "7" in another
        ids, own = ids.cast(pl.String), own.cast(pl.String)
    if own.n_unique() != len(own):
        raise ValueError(f"each id must occur once in these events, got {own.filter(own.is_duplicated())[0]!r} twice.")
    return numbers_of(ids, own)


def _refuse_strangers(rows: Table, sequence: NDArray[np.int64], time: str | None) -> None:
    """Raise a ValueError about targets without events."""
    strange = np.flatnonzero(sequence < 0)
    if len(strange):
        names = rows.frame[rows.id].gather(strange).unique(maintain_order=True).to_list()
        cure = BOTH if time is None else "Leave them out of the table of targets."
        raise ValueError(f"each target must have a sequence with its id, got {listed(names)} without events. {cure}")


def _step_of(events: Events, rows: Table, sequence: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the step of each row. The last rows of one time belong to the last steps at it, also rows without a target."""
    times = read_clock(rows.frame[rows.time or ""], rows.where, events.unit, events.settings.clock)
    if (unknown := np.flatnonzero(present & ~times.known)).size:
        raise ValueError(f"each target must have a finite time, got none at {rows.where(int(unknown[0]))}.")
    if None not in (times.offset, before := events.settings.offset) and times.offset != before:
        words = {True: "have an offset from UTC", False: "be local, without an offset from UTC"}
        raise ValueError(f"times of targets must {words[bool(before)]}, as those of the events, got others at {rows.where(0)}.")
    chosen = np.flatnonzero(present | (times.known & (sequence >= 0)))
    clock, sequence = times.ticks[chosen], sequence[chosen]
    if events.origin is not None:
        clock = in_unit(clock - events.origin.astype(np.int64)[sequence], events.unit)
    at, step = ("sequence", "time"), pl.col("step")
    steps = pl.DataFrame({"sequence": events.sequence, "time": events.time, "step": np.arange(len(events.time))})
    steps = steps.group_by(at).agg(step.min().alias("first"), step.max().alias("last"))
    found = pl.DataFrame({"sequence": sequence, "time": clock}).join(steps, on=at, how="left", maintain_order="left")
    from_last = pl.int_range(pl.len()).reverse().over(at)
    place = found.select(pl.max_horizontal(pl.col("last") - from_last, "first").fill_null(-1)).to_series().to_numpy()
    lost = chosen[(place < 0) & present[chosen]]
    if len(lost):
        raise ValueError(f"each target must be at the time of an event, got one at {rows.where(int(lost[0]))}.")
    of_rows = np.full(len(present), -1)
    of_rows[chosen] = place
    return of_rows


def _one_each(
    rows: Table, chosen: NDArray[np.int64], place: NDArray[np.int64], targets: pl.Series, name: str, time: str | None
) -> tuple[NDArray[np.int64], pl.Series]:
    """Return one target for each place, in the order of places. The same target may be repeated."""
    order = np.argsort(place, kind="stable")
    place, targets, chosen = place[order], targets.gather(order), chosen[order]
    first = starts(place)
    other = np.flatnonzero(~first & (targets != targets.shift(1)).fill_null(False).to_numpy())
    if len(other):
        cure = "" if time else " If there is one target per event, name the column of their times."
        pair = targets[int(other[0]) - 1], targets[int(other[0])]
        what = "sequence" if time is None else "event"
        raise ValueError(
            f"each {what} must have one {name!r}, got {pair[0]!r} and {pair[1]!r} at {rows.where(int(chosen[other[0]]))}.{cure}"
        )
    return place[first], targets.filter(pl.Series(first))


def _refuse_unlabelled(events: Events, place: NDArray[np.int64], where: str, partial: bool) -> None:
    """Raise a ValueError about sequences without a target."""
    if partial and not len(place):
        raise ValueError(f"at least one sequence must have a target in {where}, got none. Are the ids of the same kind?")
    missing = np.setdiff1d(np.arange(len(events)), place)
    if not partial and len(missing):
        raise ValueError(
            f"each sequence must have a target in {where}, got none for {listed(events.ids[missing].tolist())}. {BOTH}"
        )
