"""Ids as numbers in the order of their first appearance, and rows in the order of sequence, time and variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

SPREAD = 4  # ids are looked up in an array if it has at most this many places a row


def id_series(column: pl.Series) -> pl.Series:
    """Ids as integers or text; floats that are whole numbers become integers, as a frame with gaps in its column has them."""
    if column.dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        return whole if (whole.cast(pl.Float64) == column).all() else column.cast(pl.String)
    if column.dtype.is_integer():
        return column if column.dtype == pl.UInt64 else column.cast(pl.Int64)
    return column.cast(pl.String)


def encode(column: pl.Series) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct ids in the order of their first appearance, and the number of the id of each row."""
    ids = column.unique(maintain_order=True)
    names = np.array(ids.to_list()) if len(ids) else np.empty(0, np.int64)
    if column.dtype == pl.String:
        return names, column.cast(pl.Enum(ids)).to_physical().cast(pl.Int64).to_numpy()
    numbers = column.to_numpy()
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low <= SPREAD * len(numbers) + 1024:
        place = np.zeros(high - low + 1, np.int64)
        place[names - low] = np.arange(len(names))
        return names, place[numbers - low]
    codes = pl.Series(np.arange(len(names)))
    return names, column.replace_strict(ids, codes, return_dtype=pl.Int64).to_numpy()


def is_sorted(*keys: NDArray[Any]) -> bool:
    """Whether rows are in the order of the first key, then the second, and so on."""
    tied = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return False
        tied &= key[1:] == key[:-1]
    return True


def packed_order(sequence: NDArray[np.int64], time: NDArray[np.float64], variable: NDArray[np.int64]) -> NDArray[np.int64] | None:
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
    key |= sequence << for_time
    key <<= for_variable
    key |= variable
    return pl.Series(key).arg_sort().to_numpy().astype(np.int64)
