"""Columns of values: numbers, booleans, and text that is a number."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.settings import EMPTY

WORDS = {"true": 1.0, "false": 0.0}
COMMAS = r"^[+-]?\d+(,\d+)+(\.\d+)?$"  # a number such as 36,6 or 1,200.5


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
