"""Cells of a table as numbers: ids, values, and text."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import EXACT
from phased.estimator.settings import EMPTY

WORDS = {"true": 1.0, "false": 0.0}
COMMAS = r"^[+-]?\d+(,\d+)+(\.\d+)?$"  # a number such as 36,6 or 1,200.5
SPREAD = 4  # ids are looked up in an array if it has at most this many places a row


def filled(column: pl.Series) -> pl.Series:
    """Text without blanks around it; null where a word says that the cell is empty."""
    text = column.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(EMPTY), None)


def is_text(column: pl.Series, bad: int) -> bool:
    """Whether a column is a category: most of its cells are text, of which `bad` are no numbers, nor are most with commas."""
    if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    text = filled(column.cast(pl.String))
    return 2 * bad > text.count() and 2 * int(text.str.contains(COMMAS).sum()) <= bad


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
        text = filled(column).str.to_lowercase()
        number = text.cast(pl.Float64, strict=False)
        if number.null_count() > text.null_count():
            number = number.fill_null(text.replace_strict(WORDS, default=None, return_dtype=pl.Float64))
        bad = (number.is_null() & text.is_not_null()) | number.is_infinite().fill_null(False)
    elif dtype in (pl.Boolean, pl.Null):
        number, bad = column.cast(pl.Float64), pl.Series([False]).new_from_index(0, len(column))
    else:
        number = pl.Series(values=[None] * len(column), dtype=pl.Float64)
        bad = column.is_not_null()
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
    """Ids as int64 or text without blanks around it; a ValueError if they are neither.

    Floats that are exact whole numbers become integers, as a frame with gaps in its column has them. Integers beyond int64 become
    text.
    """
    dtype = column.dtype
    if dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        rounded = column.abs() >= (2**24 if dtype == pl.Float32 else EXACT)
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
    names = np.array(ids.to_list()) if len(ids) else np.empty(0, np.int64)
    if column.dtype.is_integer() and len(column):
        numbers = column.to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if high - low <= SPREAD * len(numbers) + 1024:
            place = np.zeros(high - low + 1, np.int64)
            place[names - low] = np.arange(len(names))
            return names, place[numbers - low]
    return names, numbers_of(column, ids)


def numbers_of(column: pl.Series, ids: pl.Series) -> NDArray[np.int64]:
    """The place of each row's id among `ids`, which are distinct; -1 where it is not among them."""
    known = pl.DataFrame({"id": ids, "number": np.arange(len(ids))})
    return column.to_frame("id").join(known, on="id", how="left", maintain_order="left")["number"].fill_null(-1).to_numpy()
