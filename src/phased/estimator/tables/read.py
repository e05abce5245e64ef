"""From a table to Events, part by part: static variables, values of one time, levels of text, and the Events of all parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.events import Events
from phased.estimator.ragged import offsets, starts
from phased.estimator.settings import Merge, Settings
from phased.estimator.tables import store
from phased.estimator.tables.cells import find_levels, with_levels
from phased.estimator.tables.columns import MEDS
from phased.estimator.tables.drafts import Cells, Draft, Steps, draft_long, draft_wide, first_row
from phased.estimator.tables.formats import open_source
from phased.estimator.tables.parts import Opened
from phased.estimator.tables.store import Arrays, joined
from phased.estimator.tables.survey import open_table

Item = TypeVar("Item")


def read_table(source: Any, asked: Settings, like: Settings | None, file: Path | None = None) -> Events:
    """Return the Events of a table.

    Args:
        source: a path, a frame or a dictionary of columns.
        asked: arguments of the call.
        like: settings of the table read before, which complete the arguments.
        file: for the arrays, which are memory-mapped. It is used again if it was made from the same files in the same way.
    """
    opened = open_source(source)
    if file is None:
        parts = _parts(open_table(opened, asked, like), lambda make: list(make()))
        return Events(**joined((part.events for part in parts), Arrays()))
    store.check(file, opened.files)
    key = store.key_of(opened.files, asked, like)
    if opened.files and (events := store.read(file, key)) is not None:
        return events
    with TemporaryDirectory(prefix=".", suffix=".part", dir=file.parent) as folder:
        parts = _parts(open_table(opened, asked, like, Path(folder) / "rows"), Again)
        store.write(file, joined((part.events for part in parts), Arrays(Path(folder))), key)
    found = store.read(file, key)
    assert found is not None, file
    return found


def read_with_times(source: Any, asked: Settings, like: Settings | None) -> tuple[Events, pl.Series]:
    """Return the Events of a table, and the time of each step as it stands in the table. See `read_table` for the arguments."""
    parts = list(_parts(open_table(open_source(source), asked, like), lambda make: list(make())))
    return Events(**joined((part.events for part in parts), Arrays())), pl.concat(part.times() for part in parts)


class Settled(NamedTuple):
    """Sequences with texts as indices, the texts of each variable, and a function for the time of each step in the table."""

    events: Events
    texts: Mapping[str, list[str]]
    times: Callable[[], pl.Series]


class Again(Iterable[Item]):
    """Items that are made anew by each loop over them, so that one at a time is in memory."""

    def __init__(self, make: Callable[[], Iterable[Item]]) -> None:
        self.make = make

    def __iter__(self) -> Iterator[Item]:
        return iter(self.make())


def _parts(table: Opened, kept: Callable[[Callable[[], Iterable[Any]]], Iterable[Any]]) -> Iterator[Settled]:
    """The Events of each part. `kept` keeps items for several loops."""
    make = Again(lambda: map(draft_wide if table.wide else draft_long, table.parts()))
    drafts: Iterable[Draft] = kept(lambda: make) if table.how.statics is None else make
    static, timeless = find_statics(table, drafts)
    levels = dict(table.how.levels)
    chosen = [name for name in table.names if name in table.texts and name not in levels]
    parts: Iterable[Settled] = Again(lambda: (settle(draft, static, timeless) for draft in _last_time(drafts)))
    if chosen:
        parts = kept(lambda: (settle(draft, static, timeless) for draft in drafts))
        levels |= find_levels(((part.events, part.texts) for part in parts), chosen)
    for part in _last_time(parts):
        yield part._replace(events=with_levels(part.events, part.texts, levels)) if levels else part


def _last_time(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each of which is forgotten by a list before the next."""
    if not isinstance(items, list):
        yield from items
    while isinstance(items, list) and items:
        yield items.pop(0)


def find_statics(table: Opened, drafts: Iterable[Draft]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two bools per variable: it is static, and its values need no time."""
    named = np.isin(table.names, table.how.statics or ())
    if table.how.statics is not None:
        return named, named
    may, does = ~named, named
    number = np.zeros((2, len(named)), np.int64)
    for draft in drafts:
        may, does = may & draft.may, does | draft.does
        number += [np.bincount(each.variable, minlength=len(named)) for each in (draft.cells, draft.timeless)]
    never = (number[0] == 0) & (number[1] > 0) & (table.how.columns == MEDS)  # MEDS gives constants no time
    return (may & does) | never, never


def settle(draft: Draft, static: NDArray[np.bool_], timeless: NDArray[np.bool_]) -> Settled:
    """Return the Events of a part. Static variables are separated, and values of one time are merged.

    Args:
        draft: the part.
        static: for each variable whether it is known once per sequence.
        timeless: for each variable whether its values need no time.
    """
    part, steps, cells, how = draft.part, draft.steps, draft.cells, draft.part.table.how
    for row, variable in zip(draft.timeless.at, draft.timeless.variable, strict=True):
        if not timeless[variable]:
            raise part.no_time(int(row), part.table.names[variable])
    names, text, counts = np.array(part.table.names, object), np.isin(part.table.names, [*draft.texts]), dict(draft.counts)
    statics = tuple(names[static]) if how.statics is None else how.statics
    if static.any():
        fixed, cells = cells.take(static[cells.variable]), cells.take(~static[cells.variable])
        fixed = fixed._replace(at=steps.sequence[fixed.at])
        before = draft.timeless._replace(at=part.sequence[draft.timeless.at])
        fixed = Cells(*(np.concatenate(pair) for pair in zip(before, fixed, strict=True)))
    else:
        fixed = draft.timeless
    if not part.table.wide and static.any():
        measured = np.bincount(cells.at, minlength=len(steps.row)) > 0
        steps, cells = steps.take(measured), cells._replace(at=(np.cumsum(measured) - 1)[cells.at])
    if how.merge is not None:
        if part.table.wide:
            steps, cells = _one_time(steps, cells)
        first = starts(cells.at, cells.variable)
        counts.setdefault("merged", int((~first).sum()))
        cells = _merged(cells, first, how.merge, text)
    steps, at = _with_bare_steps(draft, steps)
    variables = tuple(names[~static])
    events = Events(
        ids=part.ids,
        variables=variables,
        statics=statics,
        unit=how.unit,
        offset=offsets(np.bincount(steps.sequence, minlength=part.count)),
        time=steps.time,
        entry=offsets(np.bincount(cells.at if at is None else at[cells.at], minlength=len(steps.row))),
        variable=(np.cumsum(~static, dtype=np.int32) - 1)[cells.variable],
        value=cells.value,
        static=_one_per_sequence(draft, fixed, statics, text),
        origin=draft.origin,
        settings=replace(how, variables=variables, statics=statics),
        counts={name: count for name, count in counts.items() if count},
    )
    rows = pl.Series(steps.row)
    return Settled(events, draft.texts, lambda: part.frame[how.columns["time"]].gather(rows.replace(-1, None)))


def _one_time(steps: Steps, cells: Cells) -> tuple[Steps, Cells]:
    """One step of all steps of a sequence at a time."""
    first = starts(steps.sequence, steps.time)
    at = (np.cumsum(first) - 1)[cells.at]
    order = np.argsort(at * (int(cells.variable.max(initial=0)) + 1) + cells.variable, kind="stable")
    return steps.take(first), cells._replace(at=at).take(order)


def _merged(cells: Cells, first: NDArray[np.bool_], how: Merge, text: NDArray[np.bool_]) -> Cells:
    """Return one value for each run of values.

    Args:
        cells: the values of a run follow each other in the order of times. At one time they keep the order of the table.
        first: whether a value begins a run.
        how: the value of a run of several.
        text: for each variable whether it is text, which has no mean: the last one counts unless the first is asked for.
    """
    if first.all():
        return cells
    begin = np.flatnonzero(first)
    length = np.diff(begin, append=len(first))
    run = np.repeat(np.arange(len(begin)), length)
    several = length[run] > 1  # the others stay as they are
    part, run = cells.take(several), run[several]
    cut = np.flatnonzero(starts(run))
    end = np.append(cut[1:], len(run)) - 1
    by_value = part.value[np.lexsort((part.value, run))]  # the order of rows does not change the last bit of a sum
    total = np.add.reduceat(by_value, cut)
    chosen = {
        "first": part.value[cut],
        "last": part.value[end],
        "min": by_value[cut],
        "max": by_value[end],
        "sum": total,
        "mean": total / (end - cut + 1),
    }
    made = cells.take(begin)
    made.value[length > 1] = np.where(text[part.variable[cut]], chosen["first" if how == "first" else "last"], chosen[how])
    return made


def _one_per_sequence(draft: Draft, cells: Cells, statics: tuple[str, ...], text: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the static values, (sequences, statics), NaN where unknown. `cells`: in the order of times."""
    table, values = draft.part.table, np.full((draft.part.count, len(statics)), np.nan)
    cells = cells.take(np.lexsort((cells.variable, cells.at)))
    first = starts(cells.at, cells.variable)
    run = np.cumsum(first) - 1
    differs, how = ~first & starts(cells.value), table.how.merge
    one = cells.take(first)
    if differs.any() and how is None:
        wrong = cells.take(run == run[differs][0])
        name = table.names[wrong.variable[0]]
        several = "several texts" if name in draft.texts else ", ".join(f"{value:g}" for value in np.unique(wrong.value)[:5])
        cure = "" if table.like is not None else f", or leave {name!r} out of static"
        raise ValueError(
            f"a static variable must have one value per sequence, got {several} at "
            f"{draft.part.where(first_row(draft, wrong), name)}. Merge its values (merge: 'first', or another rule){cure}."
        )
    if differs.any() and how is not None:  # the same value again is no contradiction
        merge = np.bincount(run[differs], minlength=len(one.at)) > 0
        one.value[merge] = _merged(cells.take(merge[run]), first[merge[run]], how, text).value
    place = {name: column for column, name in enumerate(statics)}
    values[one.at, np.array([place.get(name, 0) for name in table.names], np.int64)[one.variable]] = one.value
    return values


def _with_bare_steps(draft: Draft, steps: Steps) -> tuple[Steps, NDArray[np.int64] | None]:
    """Add an empty step to a sequence without one, at the first time of its rows or at 0, and return the new place of each."""
    part = draft.part
    without = np.bincount(steps.sequence, minlength=part.count) == 0
    if not without.any():
        return steps, None
    times = part.times()
    row = np.flatnonzero(without[part.sequence])
    time = np.where(times.known, part.since(draft.origin, times), np.inf)[row]
    order = np.lexsort((time, part.sequence[row]))
    row, time = row[order], time[order]
    first = starts(part.sequence[row])
    row, time = row[first], time[first]
    known = np.isfinite(time)
    bare = Steps(part.sequence[row], np.where(known, time, 0.0), np.where(known, row, -1))
    both = Steps(*(np.concatenate(pair) for pair in zip(steps, bare, strict=True)))
    order = np.argsort(both.sequence, kind="stable")
    return both.take(order), np.argsort(order, kind="stable")
