"""Cells of a table as numbers: ids, values, and text, which becomes a variable of 0 and 1 for each of its levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.clock import EXACT_FLOAT64
from phased.estimator.events import Events
from phased.estimator.ragged import offsets
from phased.estimator.settings import EMPTY, OTHER, indicator
from phased.notice import warn

WORDS = {"true": 1.0, "false": 0.0}
COMMAS = r"^[+-]?\d+(,\d+)+(\.\d+)?$"  # a number such as 36,6 or 1,200.5
MOST = 50  # levels of a text variable, besides OTHER
SEQUENCES = 10  # the fewest sequences in which a level occurs
NEW = 0.9  # text with more different values per row is no category

Levels = dict[str, tuple[str, ...]]


def filled(column: pl.Series) -> pl.Series:
    """Return text without surrounding blanks. A word such as NA becomes null."""
    text = column.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(EMPTY), None)


def empty(column: pl.Series) -> pl.Series:
    """Whether each cell is null or NaN."""
    return column.is_nan().fill_null(True) if column.dtype.is_float() else column.is_null()


def text_marks(column: pl.Series) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Whether each cell of text is filled, is no number, and is a number with commas; None for a column of another type."""
    if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return None
    text = filled(column.cast(pl.String))
    wrong = np.zeros(len(column), np.bool_)
    wrong[read_values(column)[1]] = True
    return text.is_not_null().to_numpy(), wrong, text.str.contains(COMMAS).fill_null(False).to_numpy()


def is_text(filled: int, wrong: int, commas: int) -> bool:
    """Whether a variable is a category, from the sums of `text_marks`: most cells are text and not numbers with commas."""
    return 2 * wrong > filled and 2 * commas <= wrong


def read_texts(column: pl.Series, marks: Collection[float] = ()) -> tuple[NDArray[np.float64], list[str]]:
    """Return the index of the text of each row, NaN where the cell is empty or one of `marks`, and the texts, sorted."""
    whole = column.cast(pl.Int64, strict=False) if column.dtype.is_float() else column  # a frame has 1.0 for the text 1
    column = whole if whole.null_count() == column.null_count() and bool((whole == column).all()) else column
    text = filled(column.cast(pl.String))
    if marks:
        text = text.set(text.cast(pl.Float64, strict=False).is_in(list(marks)).fill_null(False), None)
    distinct = text.unique().drop_nulls().sort()
    code = text.cast(pl.Enum(distinct)).to_physical().cast(pl.Float64).fill_null(float("nan"))
    return code.to_numpy(), distinct.to_list()


def read_values(column: pl.Series) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The values as float64, NaN where missing, and the rows that are text or infinite."""
    dtype = column.dtype
    if dtype.is_numeric():
        values = np.asarray(column.to_numpy(), np.float64)  # empty cells become NaN
        return values, np.flatnonzero(np.isinf(values))
    if dtype in (pl.Categorical, pl.Enum):
        column, dtype = column.cast(pl.String), pl.String()
    if dtype == pl.String:
        number = column.cast(pl.Float64, strict=False)
        if number.null_count() > column.null_count():  # blanks, words or text
            column = filled(column).str.to_lowercase()
            words = column.replace_strict(WORDS, default=None, return_dtype=pl.Float64)
            number = column.cast(pl.Float64, strict=False).fill_null(words)
    elif dtype in (pl.Boolean, pl.Null):
        number = column.cast(pl.Float64)
    else:
        number = pl.repeat(None, len(column), dtype=pl.Float64, eager=True)
    bad = (number.is_null() & column.is_not_null()) | number.is_infinite().fill_null(False)
    return number.fill_null(float("nan")).to_numpy(), np.flatnonzero(bad.to_numpy())


def as_ids(column: pl.Series) -> pl.Series:
    """Convert text to int64 if all ids are written as whole numbers, such as 7, or all as pandas may write them, such as 7.0."""
    if column.null_count() == len(column) or column.dtype != pl.String:
        return column
    distinct = column.unique().drop_nulls()
    end = ".0" if distinct.str.ends_with(".0").all() else ""
    for blanks in ("", None):  # None strips blanks
        text = distinct.str.strip_chars(blanks).str.strip_suffix(end)
        whole = text.cast(pl.Int64, strict=False)
        if not whole.null_count() and (whole.cast(pl.String) == text).all():
            return column.str.strip_chars(blanks).str.strip_suffix(end).cast(pl.Int64)
    return column


def id_series(column: pl.Series, where: Callable[[int], str] = "row {}".format) -> pl.Series:
    """Return ids as int64 or as text without surrounding blanks. Raises ValueError for other types.

    Floats that are exact whole numbers become integers, as in a frame with gaps. Integers beyond int64 become
    text.
    """
    dtype = column.dtype
    if dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        rounded = column.abs() >= (2**24 if dtype == pl.Float32 else EXACT_FLOAT64)
        wrong = (whole.is_null() | rounded | (whole.cast(dtype) != column)).arg_true()
        if len(wrong):
            raise ValueError(
                f"ids must be integers or text, got {column[wrong[0]]!r} in the column {column.name!r} at {where(wrong[0])}. "
                f"Convert them to text."
            )
        return whole
    if dtype.is_integer():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == column.null_count() else column.cast(pl.String)
    try:
        if dtype.is_nested() or dtype == pl.Object:
            raise pl.exceptions.InvalidOperationError(f"{dtype} is no text")
        return column.cast(pl.String).str.strip_chars()
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"ids must be integers or text in UTF-8, got {column[:1].to_list()[0]!r} in the column {column.name!r} of type "
            f"{dtype}. Convert them to text."
        ) from error


def encode(column: pl.Series) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct ids in the order of their first appearance, and the number of the id of each row."""
    ids = column.unique(maintain_order=True)
    return np.array(ids.to_list()), numbers_of(column, ids)


def numbers_of(column: pl.Series, ids: pl.Series) -> NDArray[np.int64]:
    """Return the index of each id in the distinct `ids`, or -1 for an unknown id."""
    known = pl.DataFrame({"id": ids, "number": np.arange(len(ids))})
    return column.to_frame("id").join(known, on="id", how="left", maintain_order="left")["number"].fill_null(-1).to_numpy()


def with_levels(events: Events, texts: Mapping[str, Sequence[str]], levels: Levels) -> Events:
    """Replace each text variable by a variable of 0 and 1 for each of its levels.

    At a step with a text, the variable of its level is measured as 1 and the variable of the previous level as 0. The last-known
    values show the present level, and the ages show the time since each level.

    Args:
        events: sequences in which the values of text variables are indices into their texts.
        texts: of each text variable.
        levels: of each text variable. Text without levels is left out.
    """

    def level_of(name: str, code: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the level of each measurement of a variable, -1 for a text without one."""
        index = {level: place for place, level in enumerate(levels[name])}
        other = index.get(OTHER, -1)
        return np.array([index.get(text, other) for text in texts.get(name, ())], np.int64)[code.astype(np.int64)]

    step, is_text = events.step, np.array([name in levels for name in events.variables], np.bool_)
    sequence = events.sequence[step]
    level, parts = np.zeros(len(events.value), np.int64), []
    for number in np.flatnonzero(is_text):
        own = np.flatnonzero(events.variable == number)
        level[own] = level_of(events.variables[number], events.value[own])
        before = np.where(np.diff(sequence[own], prepend=-1) == 0, np.roll(level[own], 1), -1)
        ended = (before >= 0) & (before != level[own])
        parts.append((own[ended], before[ended]))
    there = np.flatnonzero(level >= 0)
    measured, level = (np.concatenate(part) for part in zip((there, level[there]), *parts, strict=True))
    value = np.where(is_text[events.variable[measured]], 1.0, events.value[measured])
    value[len(there) :] = 0.0
    order = np.lexsort((level, events.variable[measured], step[measured]))
    measured, level, value = measured[order], level[order], value[order]
    columns = []
    for name, column in zip(events.statics, events.static.T, strict=True):
        columns.append(column)
        if name in levels:
            rows = np.flatnonzero(~np.isnan(column))
            code = column.copy()
            code[rows] = level_of(name, column[rows])
            columns[-1:] = [np.where(np.isnan(column), np.nan, code == place) for place in range(len(levels[name]))]
    width = np.array([len(levels[name]) if name in levels else 1 for name in events.variables])
    variables, statics = names_of(events.variables, levels), names_of(events.statics, levels)
    left_out = tuple(name for name, chosen in levels.items() if not chosen)
    return replace(
        events,
        variables=variables,
        statics=statics,
        entry=offsets(np.bincount(step[measured], minlength=len(events.time))),
        variable=((np.cumsum(width) - width)[events.variable[measured]] + level).astype(np.int32),
        value=value,
        static=np.stack(columns, 1) if columns else np.zeros((len(events), 0)),
        settings=replace(
            events.settings,
            variables=variables,
            statics=statics,
            drop=(*events.settings.drop, *left_out),
            levels={name: chosen for name, chosen in levels.items() if chosen},
        ),
    )


def find_levels(
    parts: Iterable[tuple[Events, Mapping[str, Sequence[str]]]], names: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the sorted levels of each text variable. Warns about text that is no category, which has none.

    Args:
        parts: Events in which the values of text variables are indices into their texts, and these texts.
        names: of the text variables.
    """
    rows, sequences = Counter[str](), {name: Counter[str]() for name in names}
    for events, texts in parts:
        sequence = events.sequence[events.step]
        for name in texts.keys() & sequences:
            if name in events.statics:
                code = events.static[:, events.statics.index(name)]
                owner = np.flatnonzero(~np.isnan(code))
                code = code[owner]
            else:
                own = events.variable == events.variables.index(name)
                code, owner = events.value[own], sequence[own]
            pairs = np.unique(owner * len(texts[name]) + code.astype(np.int64))
            count = np.bincount(pairs % max(len(texts[name]), 1), minlength=len(texts[name])).tolist()
            rows[name] += len(code)
            sequences[name].update({text: number for text, number in zip(texts[name], count, strict=True) if number})
    return {name: _levels(name, rows[name], count) for name, count in sequences.items()}


def _levels(name: str, rows: int, sequences: Mapping[str, int]) -> tuple[str, ...]:
    """The levels of a text variable, from the number of its rows, and for each text the number of sequences that have it."""
    often = sorted((text for text in sequences if sequences[text] >= SEQUENCES), key=lambda text: (-sequences[text], text))
    kept = tuple(sorted(often[:MOST]))
    if len(sequences) > NEW * rows or not kept:
        why = f"has {len(sequences):,} different texts in {rows:,} rows"
        why += "" if kept else f", and no level in {SEQUENCES} sequences"
        warn(f"{name!r} {why}, and is left out. Encode it as numbers to use it, or leave it out (drop: {name!r}).")
        return ()
    return kept if len(sequences) == len(kept) or OTHER in kept else (*kept, OTHER)


def names_of(names: Collection[str], levels: Levels) -> tuple[str, ...]:
    """Return the names, with one for each level in place of a text variable."""
    several = ([indicator(name, level) for level in levels[name]] if name in levels else [name] for name in names)
    return tuple(name for part in several for name in part)
