"""Ids as numbers in the order of their first appearance, and rows in the order of sequence, time and variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phased.estimator.ragged import EXACT

SPREAD = 4  # ids are looked up in an array if it has at most this many places a row


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


def is_sorted(*keys: NDArray[Any]) -> bool:
    """Whether rows are in the order of the first key, then the second, and so on."""
    tied = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return False
        tied &= key[1:] == key[:-1]
    return True


class Packed(NamedTuple):
    """A permutation of rows, and the sequence and variable of each row after it."""

    permutation: NDArray[np.int64]
    sequence: NDArray[np.int64]
    variable: NDArray[np.int64]


def packed_order(sequence: NDArray[np.int64], time: NDArray[np.float64], variable: NDArray[np.int64]) -> Packed | None:
    """The permutation that sorts rows by sequence, time as far as the bits reach, and variable, all packed into 64 bits.

    Sorting one integer is several times faster than sorting by three keys. The caller checks the result, because times that
    differ by less than about 2**-40 of their range may be out of order. None if too few bits are left for the time.
    """
    for_sequence, for_variable = int(sequence.max()).bit_length(), int(variable.max()).bit_length()
    for_time = min(63 - for_sequence - for_variable, 52)
    start, end = float(time.min()), float(time.max())
    if for_time < 16 or not np.isfinite(end - start):
        return None
    share = time - start
    share *= (2**for_time - 1) / (end - start or 1.0)
    key = share.astype(np.int64)
    del share
    key |= sequence << for_time
    key <<= for_variable
    key |= variable
    permutation = pl.Series(key).arg_sort().to_numpy().astype(np.int64)
    key = key[permutation]
    in_order = key & ((1 << for_variable) - 1)
    key >>= for_variable + for_time
    return Packed(permutation, key, in_order)
