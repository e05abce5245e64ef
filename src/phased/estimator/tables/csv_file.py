"""CSV files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from phased.estimator.ragged import EXACT

SAMPLE = 1000  # rows from which types are inferred


def separator(path: Path) -> str:
    """The character between columns: the one that divides the header into most."""
    with refused(path):
        return max(
            ",;\t", key=lambda each: len(pl.read_csv(path, separator=each, n_rows=0, infer_schema=False, glob=False).columns)
        )


def csv_columns(path: Path) -> tuple[str, ...]:
    """The names in the first line of a file; a ValueError if one occurs twice."""
    options: dict[str, Any] = {"separator": separator(path), "infer_schema": False, "glob": False}
    with refused(path):
        names = tuple(pl.read_csv(path, n_rows=0, **options).columns)
        written = [(name or "").strip() for name in pl.read_csv(path, has_header=False, n_rows=1, **options).row(0)]
    twice = [name for index, name in enumerate(written) if name in written[:index]]
    if twice:
        raise ValueError(f"each column of '{path.name}' must have its own name, got {twice[0]!r} twice. Rename or remove one.")
    return names


def read_csv(
    source: Path | bytes,
    used: Sequence[str],
    numbers: Sequence[str],
    texts: Sequence[str],
    keys: Sequence[str],
    like: Path | None = None,
) -> pl.DataFrame:
    """Columns of a file; `numbers` are float64 where all cells are, `texts` text, `keys` text if any has a zero before it.

    Args:
        source: the file, or its content.
        used: names of columns.
        numbers: those that have numbers.
        texts: those that have names.
        keys: those whose numbers may be names, as 007 is.
        like: for content, a file with the same separator.
    """
    path = source if isinstance(source, Path) else like
    assert path is not None
    with refused(path):
        mark = separator(path)
        sample = pl.scan_csv(_again(source), separator=mark, infer_schema_length=SAMPLE, glob=False).collect_schema()
        options: dict[str, Any] = {"separator": mark, "columns": list(used), "glob": False}
        types: dict[str, Any] = {name: pl.Float64 for name in numbers if sample[name].is_numeric()}
        keys = [name for name in keys if sample[name].is_numeric()]
        types |= dict.fromkeys([*texts, *keys], pl.String)
        types |= {name: sample[name] for name in used if name not in types}
        try:
            frame = pl.read_csv(_again(source), schema_overrides=types, **options).select(used)
        except pl.exceptions.ComputeError:  # a later row is of another type: all as text, checked value by value
            frame = pl.read_csv(_again(source), infer_schema=False, **options).select(used)
            frame = frame.with_columns(_restored(frame[name], types[name]) for name in used)
    return as_numbers(frame, keys)


def as_numbers(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Columns of text in which all cells are numbers become such columns, unless one is written as 007, which is a name."""
    return frame.with_columns(_as_number(frame[name]) for name in keys if frame[name].dtype == pl.String)


def _as_number(column: pl.Series) -> pl.Series:
    with_zero = column.filter(column.str.starts_with("0") | column.str.starts_with("-0"))
    if with_zero.str.contains(r"^-?0\d").any() or column.null_count() == len(column):
        return column
    whole = column.cast(pl.Int64, strict=False)
    if whole.null_count() == column.null_count():
        return whole
    bare = column.str.strip_chars()
    if (bare != column).any():
        return _as_number(bare)
    made = column.cast(pl.Float64, strict=False)
    rounded = column.filter(made.abs() >= EXACT).str.contains(r"^[+-]?\d+$").any()  # a long number of digits is a name
    return column if rounded or made.null_count() > column.null_count() else made


def _restored(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Text as a type, if every cell can be converted."""
    made = column.cast(dtype, strict=False) if dtype != pl.Boolean else column
    return made if made.null_count() == column.null_count() else column


def _again(source: Path | bytes) -> Path | BytesIO:
    """The source, to be read from its beginning."""
    return source if isinstance(source, Path) else BytesIO(source)


@contextmanager
def refused(path: Path, what: str = "a table of comma-separated values in UTF-8") -> Iterator[None]:
    """Errors of polars become errors about a file."""
    try:
        yield
    except pl.exceptions.NoDataError as error:
        raise ValueError(f"'{path.name}' must have a line with the names of its columns, and is empty.") from error
    except pl.exceptions.PolarsError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"'{path.name}' must be {what}, got: {first}") from error
