"""From a table to Events, part by part. A long table has a row per measurement, a wide table a row per time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from phased.estimator.tables.cells import find_levels, read_texts, read_values, with_levels
from phased.estimator.tables.columns import MEDS
from phased.estimator.tables.formats import open_source
from phased.estimator.tables.parts import VARIABLE, Opened, Part
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
    """Sequences, the texts whose indices are values of text variables, and the time of each step as it stands in the table."""

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


class Cells(NamedTuple):
    """Values that are not missing, each with its step, row or sequence, and its variable."""

    at: NDArray[Any]
    variable: NDArray[Any]
    value: NDArray[np.float64]

    def take(self, index: NDArray[Any]) -> Cells:
        """Some of them."""
        return Cells(self.at[index], self.variable[index], self.value[index])


class Steps(NamedTuple):
    """Steps in order: sequence, time, and row, which is -1 for a time that is not in the table."""

    sequence: NDArray[Any]
    time: NDArray[np.float64]
    row: NDArray[Any]

    def take(self, index: NDArray[Any]) -> Steps:
        """Some of them."""
        return Steps(self.sequence[index], self.time[index], self.row[index])


@dataclass(frozen=True)
class Draft:
    """The values of a part, before it is known which variables of the table are static.

    Args:
        part: its rows.
        steps: of its rows with a time.
        cells: of the steps, sorted by step and variable; several of a step and variable wait to be merged, in the table's order.
        timeless: of the rows without a time.
        texts: of each text variable. Its values are indices into these texts.
        origin: date of time 0 of each sequence, or None.
        counts: what happened to rows.
        may, does: for each variable whether it may be static, and whether one of these sequences shows that it is.
    """

    part: Part
    steps: Steps
    cells: Cells
    timeless: Cells
    texts: dict[str, list[str]]
    origin: NDArray[np.datetime64] | None
    counts: dict[str, int]
    may: NDArray[np.bool_]
    does: NDArray[np.bool_]


def draft_long(part: Part) -> Draft:
    """The values of rows with one value each."""
    how, names = part.table.how, part.table.names
    variable = part.frame[VARIABLE].to_numpy()
    value, texts, sentinels = _long_values(part, variable)
    times, used = part.times(), ~np.isnan(value)
    origin = part.origin(times, used)
    row, without = np.flatnonzero(used & times.known), np.flatnonzero(used & ~times.known)
    time = part.since(origin, times)
    row = row[_order(part.sequence[row], time[row], variable[row])].astype(np.int32)
    sequence, time, code = part.sequence[row], time[row], variable[row]
    first = starts(sequence, time, code)
    may, does = _at_first_time(sequence, time, code, None if how.merge else value[row], len(names))
    counts = {"sentinels": sentinels}
    begin = starts(sequence, time)
    if how.merge:
        counts["merged"] = int((~first & ~np.isin(names, how.statics or ())[code]).sum())
    elif not first.all():
        # The k-th value of a variable at a time, in the order of the table, belongs to the k-th step at that time.
        turn = np.arange(len(row)) - np.flatnonzero(first)[np.cumsum(first) - 1]
        order = np.lexsort((turn, np.cumsum(begin)))
        row, sequence, time, code = row[order], sequence[order], time[order], code[order]
        begin = starts(sequence, time, turn[order])
    cells = Cells(np.cumsum(begin, dtype=np.int32) - 1, code, value[row])
    timeless = Cells(without, variable[without], value[without])
    return Draft(part, Steps(sequence, time, row).take(begin), cells, timeless, texts, origin, counts, may, does)


def _long_values(part: Part, variable: NDArray[Any]) -> tuple[NDArray[np.float64], dict[str, list[str]], int]:
    """Return the value of each row, NaN without a value, the texts of text variables, and the number of sentinels."""
    how, names = part.table.how, part.table.names
    column = part.frame[how.columns["value"]]
    value, bad = read_values(column)
    value, bad, texts = np.where(variable < 0, np.nan, value), bad[variable[bad] >= 0], {}
    for number in (number for number, name in enumerate(names) if name in part.table.texts):
        rows = np.flatnonzero(variable == number)
        value[rows], texts[names[number]] = read_texts(column.gather(rows), how.marks(names[number]))
        bad = bad[variable[bad] != number]
    for row in bad[:1].tolist():
        raise part.bad_value(row, names[variable[row]], column[row])
    marked = [() if name in texts else how.marks(name) for name in names]
    sentinel = np.zeros(len(value), np.bool_)
    for numbers in {*marked} - {()}:
        applies = np.array([*(each == numbers for each in marked), False])  # the last for -1
        sentinel |= applies[variable] & np.isin(value, numbers)
    value[sentinel] = np.nan
    return value, texts, int(sentinel.sum())


def _order(sequence: NDArray[Any], time: NDArray[np.float64], variable: NDArray[Any]) -> NDArray[np.int64]:
    """The order of rows by sequence, time and variable. Rows that are equal in all three keep their order."""
    keys = sequence, pl.Series(time).rank("dense").to_numpy().astype(np.int64), variable
    sizes = [int(key.max(initial=0)) + 1 for key in keys]
    if math.prod(sizes) >= 2**63:
        return np.lexsort(keys[::-1])
    key = pl.DataFrame({"key": np.ravel_multi_index(keys, sizes)})  # one integer is sorted several times faster than three keys
    return key.select(pl.arg_sort_by("key", maintain_order=True).cast(pl.Int64)).to_series().to_numpy()


def _at_first_time(
    sequence: NDArray[Any], time: NDArray[np.float64], variable: NDArray[Any], value: NDArray[np.float64] | None, variables: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each variable of a long table whether it may be static, and whether it does show to be.

    It may be if it is measured only at the first time of every sequence. A value that is measured once, but later, is not known
    at the first event. Nor is one with several values at that time, unless they are merged. A sequence with the variable shows
    that it does not change if it has two times.

    Args:
        sequence, time, variable: of each row, sorted.
        value: of each row, or None if values of one time are merged.
        variables: their number.
    """
    begin = np.flatnonzero(starts(sequence))
    length = np.diff(begin, append=len(sequence))
    later = time > np.repeat(time[begin], length)
    if value is not None:
        later |= ~starts(sequence, time, variable) & starts(value)
    goes_on = np.repeat(time[begin + length - 1] > time[begin], length)
    return np.bincount(variable[later], minlength=variables) == 0, np.bincount(variable[goes_on], minlength=variables) > 0


def draft_wide(part: Part) -> Draft:
    """The values of rows with a column per variable. Every row with a time is a step."""
    matrix, texts, sentinels = _matrix(part)
    times = part.times()
    origin = part.origin(times, times.known)
    row, without = np.flatnonzero(times.known), np.flatnonzero(~times.known)
    time = part.since(origin, times)
    row = row[_order(part.sequence[row], time[row], np.zeros_like(row))]
    steps, ordered = Steps(part.sequence[row], time[row], row), matrix[row]
    may, does = _constant(ordered, steps)
    cells, timeless = _filled(ordered), _filled(matrix[without])
    timeless = timeless._replace(at=without[timeless.at])
    return Draft(part, steps, cells, timeless, texts, origin, {"sentinels": sentinels}, may, does)


def _matrix(part: Part) -> tuple[NDArray[np.float64], dict[str, list[str]], int]:
    """Return the values (rows, variables), NaN in empty cells, the texts of text variables, and the number of sentinels."""
    how, columns = part.table.how, {column.name: column for column in part.frame.get_columns()}
    matrix = np.full((len(part.frame), len(part.table.names)), np.nan)
    texts, sentinels = {}, 0
    for place, name in enumerate(part.table.names):
        column = columns.get(name)
        if column is None:
            continue
        if name in part.table.texts:
            matrix[:, place], texts[name] = read_texts(column, how.marks(name))
            continue
        matrix[:, place], bad = read_values(column)
        for row in bad[:1].tolist():
            raise part.bad_value(row, name, column[row])
        if marks := how.marks(name):
            absent = np.isin(matrix[:, place], marks)
            sentinels += int(absent.sum())
            matrix[absent, place] = np.nan
    return matrix, texts, sentinels


def _filled(matrix: NDArray[np.float64]) -> Cells:
    """The filled cells of a matrix, row after row."""
    filled = ~np.isnan(matrix)
    at = np.repeat(np.arange(len(matrix), dtype=np.int32), filled.sum(1))
    return Cells(at, np.broadcast_to(np.arange(matrix.shape[1], dtype=np.int32), filled.shape)[filled], matrix[filled])


def _constant(matrix: NDArray[np.float64], steps: Steps) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each variable of a wide table whether it may be static, and whether it does show to be.

    It may be if it is constant in every sequence, and filled in all of its rows or only in the first. A sequence with the
    variable shows that it does not change if it has two times.

    Args:
        matrix: (steps, variables), NaN where a cell is empty.
        steps: in order.
    """
    if not len(matrix):
        return np.ones(matrix.shape[1], np.bool_), np.zeros(matrix.shape[1], np.bool_)
    begin = np.flatnonzero(starts(steps.sequence))
    length = np.diff(begin, append=len(matrix))[:, None]
    goes_on = (steps.time[begin + length[:, 0] - 1] > steps.time[begin])[:, None]
    filled = ~np.isnan(matrix)
    count = np.add.reduceat(filled, begin, dtype=np.int64)
    same = np.fmin.reduceat(matrix, begin) == np.fmax.reduceat(matrix, begin)
    fits = (count == length) | ((count == 1) & filled[begin])
    return np.asarray(((count == 0) | (same & fits)).all(0)), np.asarray(((count > 0) & goes_on).any(0))


def find_statics(table: Opened, drafts: Iterable[Draft]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each variable whether it is static, and whether its values need no time."""
    named = np.isin(table.names, table.how.statics or ())
    if table.how.statics is not None:
        return named, named
    may, does = ~named, named
    number = np.zeros((2, len(named)), np.int64)
    for draft in drafts:
        may, does = may & draft.may, does | draft.does
        number += [np.bincount(each.variable, minlength=len(named)) for each in (draft.cells, draft.timeless)]
    never = (number[0] == 0) & (number[1] > 0) & (table.how.columns == MEDS)  # MEDS has no time for what is always known
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
        cells: sorted, so that the values of a run follow each other in the order of their times, and of the table.
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
    """Return the static values, (sequences, statics), NaN where unknown. `cells`: in the order of times, and of the table."""
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
            f"{draft.part.where(_first_row(draft, wrong), name)}. Merge its values (merge: 'first', or another rule){cure}."
        )
    if differs.any() and how is not None:  # the same value again is no contradiction
        merge = np.bincount(run[differs], minlength=len(one.at)) > 0
        one.value[merge] = _merged(cells.take(merge[run]), first[merge[run]], how, text).value
    place = {name: column for column, name in enumerate(statics)}
    values[one.at, np.array([place.get(name, 0) for name in table.names], np.int64)[one.variable]] = one.value
    return values


def _first_row(draft: Draft, cells: Cells) -> int:
    """The first row with one of the values of a variable in a sequence."""
    part, (sequence, variable) = draft.part, (cells.at[0], cells.variable[0])
    if part.table.wide:
        filled = ~np.isnan(_matrix(part)[0][:, variable])
    else:
        code = part.frame[VARIABLE].to_numpy()
        filled = (code == variable) & ~np.isnan(_long_values(part, code)[0])
    return int(np.flatnonzero(filled & (part.sequence == sequence))[0])


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
