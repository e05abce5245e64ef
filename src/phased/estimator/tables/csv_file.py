"""CSV files."""

from __future__ import annotations

import csv
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import SEEK_CUR, SEEK_END
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from phased.clock import EXACT_FLOAT64
from phased.estimator.tables.cells import as_ids

SAMPLE = 1000  # rows from which types are inferred
BLANK = 10  # lines among which the header is looked for
COMPRESSED = (".gz", ".xz", ".zst")


class Kinds(NamedTuple):
    """Types of the columns of a CSV file. A column that is not named here has the type of its first rows.

    Args:
        used: all columns to read.
        numbers: float64 where all cells are numbers.
        texts: always text.
        ids: integers or text, and never fractions.
        keys: numbers, or text if one of them is written as a name, such as 007.
    """

    used: Sequence[str]
    numbers: Sequence[str] = ()
    texts: Sequence[str] = ()
    ids: Sequence[str] = ()
    keys: Sequence[str] = ()


def content(path: Path) -> Path | bytes:
    """Return the path, or the content of a file that polars does not decompress itself."""
    if path.suffix.lower() == ".zst":
        check_end(path)
    return lzma.decompress(path.read_bytes()) if path.suffix.lower() == ".xz" else path


def check_end(path: Path) -> None:
    """Raise an OSError for Zstandard frames (RFC 8878) that are cut off: polars reads them as far as they go."""
    with path.open("rb") as file:

        def number(size: int) -> int:
            return int.from_bytes(file.read(size), "little")

        end = file.seek(0, SEEK_END)
        file.seek(0)
        while file.tell() < end:
            magic, block = number(4), 0
            if magic >> 4 == 0x184D2A5:  # a frame without data
                file.seek(number(4), SEEK_CUR)
            elif magic == 0xFD2FB528:
                about = number(1)
                single = about >> 5 & 1
                file.seek(1 - single + (0, 1, 2, 4)[about & 3] + (single, 2, 4, 8)[about >> 6], SEEK_CUR)
                while not block & 1:
                    if file.tell() >= end:
                        raise OSError("unexpected end of file")
                    block = number(3)
                    file.seek(1 if block >> 1 & 3 == 1 else block >> 3, SEEK_CUR)
                file.seek(4 * (about >> 2 & 1), SEEK_CUR)
            else:
                raise OSError("no Zstandard frame")
        if file.tell() > end:
            raise OSError("unexpected end of file")


def header(source: Path | bytes) -> tuple[str, list[str]]:
    """The character between columns, which divides the first line into most, and the names in that line."""
    lines = pl.read_lines(source, n_rows=BLANK, glob=False).to_series()
    line = next((line for line in lines if line.strip()), "")
    mark = max(",;\t", key=re.sub(r'"[^"]*"', "", line).count)
    return mark, next(csv.reader([line], delimiter=mark), [])


def csv_columns(path: Path) -> tuple[str, ...]:
    """Return the names in the header of a file. Raises ValueError if a name occurs twice."""
    with refused(path):
        source = content(path)
        mark, written = header(source)
        names = tuple(pl.read_csv(source, n_rows=0, separator=mark, infer_schema=False, glob=False).columns)
    check_names(map(str.strip, written), f"'{path.name}'")
    return names


def check_names(names: Iterable[str], where: str) -> None:
    """Raise a ValueError if two columns have one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"each column of {where} must have its own name, got {twice[0]!r} twice. Rename or remove one.")


def line_of(path: Path, row: int) -> int:
    """The line of a file in which a row begins. Blank lines before the header and line breaks within quotes count."""
    source = content(path)
    lines = pl.read_lines(source, glob=False).to_series()
    begins = lines.str.count_matches('"').cum_sum().shift(1, fill_value=0) % 2 == 0
    before = lines.str.strip_chars().str.len_bytes().gt(0).arg_max() or 0
    return int(begins.slice(before).arg_true()[row + 1]) + before + 1


def read_csv(path: Path, kinds: Kinds, joined: bytes | None = None) -> pl.DataFrame:
    """Read columns of a file, or of the `joined` content of several files with the same header."""
    with refused(path):
        source = joined or content(path)
        mark, _ = header(source)
        sample = pl.scan_csv(source, separator=mark, infer_schema_length=SAMPLE, glob=False).collect_schema()
        # All columns are read: otherwise polars accepts a row with too many cells, such as one with 36,6 for 36.6.
        options: dict[str, Any] = {"separator": mark, "glob": False}
        types: dict[str, Any] = {name: pl.Float64 for name in kinds.numbers if sample[name].is_numeric()}
        ids = [name for name in kinds.ids if sample[name].is_numeric() or sample[name] == pl.Boolean]
        keys = [name for name in kinds.keys if sample[name].is_numeric()]
        types |= dict.fromkeys([*kinds.texts, *ids, *keys], pl.String)
        types |= {name: kind if name in kinds.used else pl.String for name, kind in sample.items() if name not in types}
        try:
            frame = pl.read_csv(source, schema_overrides=types, **options).select(kinds.used)
        except pl.exceptions.ComputeError:  # a later row is of another type: all as text, checked value by value
            frame = pl.read_csv(source, infer_schema=False, **options).select(kinds.used)
            frame = frame.with_columns(_restored(frame[name], types[name]) for name in kinds.used)
    return as_numbers(frame, ids, keys)


def as_numbers(frame: pl.DataFrame, ids: Sequence[str], keys: Sequence[str]) -> pl.DataFrame:
    """Convert columns of text that are numbers: ids to integers, keys to any numbers unless one is written as 007."""
    made = [as_ids(frame[name]) for name in ids] + [_as_number(frame[name]) for name in keys if frame[name].dtype == pl.String]
    return frame.with_columns(made)


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
    rounded = column.filter(made.abs() >= EXACT_FLOAT64).str.contains(r"^[+-]?\d+$").any()  # a long number of digits is a name
    return column if rounded or made.null_count() > column.null_count() else made


def _restored(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Text as a type, if every cell can be converted."""
    made = column.cast(dtype, strict=False) if dtype != pl.Boolean else column
    return made if made.null_count() == column.null_count() else column


@contextmanager
def refused(path: Path, what: str = "a table of comma-separated values in UTF-8") -> Iterator[None]:
    """Turn errors and panics of polars and errors of decompression into errors about a file."""
    try:
        yield
    except pl.exceptions.NoDataError as error:
        raise ValueError(f"'{path.name}' must have a line with the names of its columns, and is empty.") from error
    except (PermissionError, FileNotFoundError, IsADirectoryError):
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, lzma.LZMAError, OSError) as error:
        first = str(error).partition("\n")[0]
        if isinstance(error, pl.exceptions.PanicException):
            first += ". A column may have an unknown time zone, or dates beyond all years"
        raise ValueError(f"'{path.name}' must be {what}, got: {first}. Write the file again.") from error
