"""The first pass over the rows of a table finds ids, variables, text variables and the first time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from phased.estimator.settings import EVERY, Settings, listed
from phased.estimator.tables.cells import as_ids, empty, encode, filled, is_text, text_marks
from phased.estimator.tables.columns import resolve
from phased.estimator.tables.formats import Kinds, Scan, Source, every_id, refused
from phased.estimator.tables.parts import CELLS, ROW, SEQUENCE, VARIABLE, Opened
from phased.estimator.tables.times import read_clock

FILE = "(file)"  # the column of ids where every file is a sequence
BUCKET = "(bucket)"  # number of the file into which a row is sorted
BUCKETS = 64  # the most files
ROUND = 2**10  # rows in which the first filled cell is looked for
BATCH = 2**20  # rows that are looked at together
ALL_COLUMNS = pl.QueryOptFlags(projection_pushdown=False)
MARKS = ("filled", "wrong", "commas")  # counts of cells of text


@dataclass(frozen=True)
class Survey:
    """Ids, variables and the first time of a table.

    Args:
        ids: ids as they are written, in the order of their first rows, with the number of their rows.
        names: variables as they are written, with their first row, the first with a value, and the counts of `MARKS`.
        time: the first filled cell of times, (1,) or (0,).
        at: its row.
    """

    ids: pl.DataFrame
    names: pl.DataFrame
    time: pl.Series
    at: int

    @classmethod
    def of(cls, batches: Iterable[pl.DataFrame], columns: Mapping[str, str]) -> Survey:
        """Look at all rows. `columns`: by role."""
        ids: list[pl.DataFrame] = []
        names: list[pl.DataFrame] = []
        time, at, rows = pl.Series(), 0, 0
        for batch in batches:
            batch = batch.with_row_index(ROW, rows)
            ids.append(batch.group_by(columns["id"], maintain_order=True).agg(pl.len(), pl.first(ROW)))
            names.append(_of_rows(batch, columns) if "value" in columns else _of_columns(batch, columns))
            if not len(time):
                time, at = _first_filled(batch[columns["time"]], rows)
            rows += len(batch)
            if len(ids) > 1:
                both = pl.concat(ids, how="vertical_relaxed").group_by(columns["id"], maintain_order=True)
                ids = [both.agg(pl.sum("len"), pl.first(ROW))]
                both = pl.concat(names, how="vertical_relaxed").group_by("name", maintain_order=True)
                names = [both.agg(pl.min(ROW, "valued"), pl.sum(*MARKS))]
        return cls(ids[0], names[0], time, at)


def _of_rows(batch: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """The variables of a long table."""
    value = batch[columns["value"]]
    marks = {name: pl.Series(mark) for name, mark in zip(MARKS, text_marks(value) or (), strict=False)}
    rows = batch.select(ROW, pl.col(columns["variable"]).alias("name"), valued=~empty(value), **marks)
    counts = [pl.sum(name) if name in marks else pl.lit(0, pl.UInt32).alias(name) for name in MARKS]
    return rows.group_by("name").agg(pl.min(ROW), pl.col(ROW).filter("valued").min().alias("valued"), *counts)


def _of_columns(batch: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """The variables of a wide table."""
    variables = batch.drop(ROW, *columns.values()).get_columns()
    rows = [(each.name, 0, 0, *(int(np.sum(mark)) for mark in text_marks(each) or ((),) * len(MARKS))) for each in variables]
    kinds = {"name": pl.String, **dict.fromkeys((ROW, "valued", *MARKS), pl.UInt32)}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def _first_filled(column: pl.Series, rows: int) -> tuple[pl.Series, int]:
    """Return the first filled cell, (1,) or (0,), with its row."""
    for start in range(0, len(column), ROUND):
        some = column[start : start + ROUND]
        known = some.is_finite() if some.dtype.is_float() else (filled(some) if some.dtype == pl.String else some).is_not_null()
        for place in known.arg_true()[:1]:
            return some[place : place + 1], rows + start + place
    return column[:0], 0


def open_table(source: Source, asked: Settings, like: Settings | None, folder: Path | None = None) -> Opened:
    """Return a table with its ids and variables.

    Args:
        source: a table.
        asked: arguments of the call.
        like: settings of the table read before, which complete the arguments.
        folder: for files into which the rows are sorted. By default all rows are in memory.
    """
    how, wide, dropped = resolve(source, asked, like)
    columns = {"id": FILE, **how.columns}
    roles: Kinds = {"id": "id", "time": "any", "variable": "text", "value": "text" if how.levels else "number"}
    cells: Kinds = {name: "text" if name in how.levels else "number" for name in wide}
    kinds: Kinds = {**{name: roles[role] for role, name in how.columns.items()}, **cells}
    found, scan = _in_memory(source, kinds, columns) if folder is None else _streamed(source, kinds, columns)
    if not found.ids["len"].sum():
        raise ValueError(f"{source.name} must have at least one row, and has none.")
    written = as_ids(found.ids[columns["id"]]) if scan.numeric else found.ids[columns["id"]]
    ids, number = encode(every_id(written, lambda place: scan.row(found.ids[ROW][place])))
    lengths = np.bincount(number, found.ids["len"], len(ids)).astype(np.int64)
    name_of = {name: name for name in wide} if wide else _names(found.names, scan.row)
    _check_names(source, how, like, [*wide, *dropped] if wide else sorted({*name_of.values()} - {""}))
    present = [*wide] if wide else _measured(found.names, name_of, how)
    names = present if like is None else [*dict.fromkeys(like.inputs)]
    place = {name: index for index, name in enumerate(names)}
    code = np.array([place.get(name_of[name], -1) for name in found.names["name"]], np.int32)
    marks = np.zeros((len(names) + 1, len(MARKS)), np.int64)  # the last for -1
    np.add.at(marks, code, found.names.select(MARKS).to_numpy())
    texts = like.levels if like else [name for name, counts in zip(names, marks.tolist(), strict=False) if is_text(*counts)]

    id, row = columns["id"], scan.row
    bucket = (np.cumsum(lengths) - lengths) // max(2 * CELLS // len(kinds), int(lengths.sum()) // BUCKETS + 1)
    known = pl.LazyFrame({id: found.ids[id], SEQUENCE: number.astype(np.uint32), BUCKET: bucket[number].astype(np.uint32)})
    rows = scan.rows.with_row_index(ROW).join(known, on=id, how="left", maintain_order="left")
    if not wide:
        known = pl.LazyFrame({columns["variable"]: found.names["name"], VARIABLE: code})
        rows = rows.join(known, on=columns["variable"], how="left", maintain_order="left")
        rows = rows.with_columns(pl.col(VARIABLE).fill_null(-1))  # a row without a name has no value
    rows = rows.select(ROW, SEQUENCE, BUCKET, columns["time"], *(wide or (VARIABLE, columns["value"])))
    if folder is None:
        frame = rows.drop(BUCKET).collect()
        del scan, rows  # and so the table as it was read
        frames = _sorted(frame)
    else:
        frames = _in_files(rows, folder)
    opened = Opened(how, like, ids, lengths, names, frozenset(texts), found.time, frames, row)
    if unknown := [name for name in present if name not in place]:
        first = next((first for name, first in found.names.select("name", ROW).iter_rows() if name_of[name] == unknown[0]), 0)
        part, at = opened.find(first)
        raise ValueError(
            f"variables must be those of the table read before, got {listed(unknown)}, first at {part.where(at, unknown[0])}. "
            f"Leave them out (drop: {listed(unknown)})."
        )
    return _with_clock(opened, found)


def _in_memory(source: Source, kinds: Kinds, columns: Mapping[str, str]) -> tuple[Survey, Scan]:
    """Read all rows and survey the table in memory."""
    table = source.load(kinds, columns["id"])
    batches = chain([table.frame[:0]], table.frame.iter_slices(BATCH))
    return Survey.of(batches, columns), Scan(table.frame.lazy(), table.row, numeric=False)


def _streamed(source: Source, kinds: Kinds, columns: Mapping[str, str]) -> tuple[Survey, Scan]:
    """Look at the rows of files a batch at a time."""
    with refused(Path(source.name.strip("'")), "a readable table"):
        try:
            scan = source.scan(kinds, columns["id"])
            return Survey.of(_batches(scan.rows), columns), scan
        except pl.exceptions.ComputeError:  # a later row is of another type: all as text, checked value by value
            scan = source.scan(kinds, columns["id"], typed=False)._replace(numeric=scan.numeric)
            return Survey.of(_batches(scan.rows), columns), scan


def _batches(rows: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows, a batch at a time. All columns are read: otherwise polars accepts a row with too many cells."""
    yield rows.head(0).collect()
    yield from rows.collect_batches(chunk_size=BATCH, optimizations=ALL_COLUMNS)


def _names(names: pl.DataFrame, row: Callable[[int], str]) -> dict[Any, str]:
    """The name of each variable of a long table without surrounding blanks, by the name as it is written."""
    bare = names["name"].cast(pl.String).str.strip_chars()
    for bad in names.filter(bare.is_null() | (bare == ""))["valued"].drop_nulls().sort()[:1]:
        raise ValueError(f"each measurement must name its variable, and {row(bad)} does not.")
    return {name: text or "" for name, text in zip(names["name"], bare, strict=True)}


def _measured(names: pl.DataFrame, name_of: Mapping[Any, str], how: Settings) -> list[str]:
    """The variables of a long table that are read. One without any value, such as a code of MEDS for an event, is left out."""
    valued = {name_of[name] for name in names.filter(pl.col("valued").is_not_null())["name"]}
    return sorted(name for name in {*name_of.values()} - {"", *how.drop} if name in valued or name in (how.statics or ()))


def _check_names(source: Source, how: Settings, like: Settings | None, present: Sequence[str]) -> None:
    """Raise a ValueError if a name in an argument does not occur. A table that is read like another may lack variables."""
    there = {EVERY, *present}
    arguments = {"static": how.statics or (), "missing": how.missing, "drop": how.drop}
    for argument, names in arguments.items() if like is None else ():
        for name in names:
            if name not in there:
                raise ValueError(f"{argument} must name variables of {source.name}, got {name!r}. It has {listed(present, 50)}.")


def _with_clock(opened: Opened, found: Survey) -> Opened:
    """Return the table with unit and kind of its times. Raises ValueError if they differ from the table read before."""
    like = opened.like

    def where(_: int) -> str:
        part, place = opened.find(found.at)
        return part.where(place)

    times = read_clock(found.time, where, opened.how.unit, None if like is None else like.clock)
    if like is not None and times.unit != like.unit:
        raise ValueError(f"times must be in the unit {like.unit!r}, as in the table read before, got {times.unit!r}.")
    return replace(opened, how=replace(opened.how, unit=times.unit, clock=times.clock, offset=times.offset))


def _sorted(frame: pl.DataFrame) -> Callable[[], Iterable[pl.DataFrame]]:
    """Return all rows. Rows of several parts are sorted by sequence."""
    if frame.height * frame.width > CELLS and not frame[SEQUENCE].is_sorted():
        frame = frame.sort(SEQUENCE, maintain_order=True)
    return lambda: (frame,)


def _in_files(rows: pl.LazyFrame, folder: Path) -> Callable[[], Iterable[pl.DataFrame]]:
    """Write the rows of some sequences to each file, and read a file at a time."""
    place = pl.PartitionBy(folder, key=BUCKET, include_key=False)
    rows.sink_parquet(place, mkdir=True, maintain_order=False, compression="lz4", optimizations=ALL_COLUMNS)
    folders = sorted(folder.iterdir(), key=lambda each: int(each.name.partition("=")[2]))

    def frames() -> Iterator[pl.DataFrame]:
        for each in folders:
            yield (
                pl.read_parquet([*each.iterdir()], glob=False, hive_partitioning=False)
                .sort(ROW)
                .sort(SEQUENCE, maintain_order=True)
            )

    return frames
