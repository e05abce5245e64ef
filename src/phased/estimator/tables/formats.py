"""Sources of tables: CSV and Parquet files, folders of them, and frames of pandas, polars or arrow."""

from __future__ import annotations

import csv
import lzma
import numbers
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from phased.check import as_float
from phased.clock import EXACT_FLOAT64
from phased.estimator.settings import listed, repeated
from phased.estimator.tables.cells import as_ids, empty, id_series
from phased.estimator.units import ticks_of
from phased.files import check_utf8, named

# In order of preference: names of this library, of MEDS and of PhysioNet 2012.
KNOWN = {
    "id": ("id", "subject_id", "RecordID"),
    "time": ("time", "Time"),
    "variable": ("variable", "code", "Parameter"),
    "value": ("value", "numeric_value", "Value"),
}
MEMORY = "the table"  # the name of a table that is no file
SAMPLE = 1000  # rows of a CSV file from which types are inferred
BLANK = 10  # lines of a CSV file among which the header is looked for
COMPRESSED = (".gz", ".xz", ".zst")
TEXT = (".csv", ".tsv", ".txt", *COMPRESSED)
PARQUET = (".parquet", ".pq")
FORMATS = (*TEXT, *PARQUET)
TEXTS: dict[str, Any] = {"schema_overrides": None, "infer_schema": False}  # options that leave all columns as text
PRINTABLE = {"ms": 2**47, "us": 2**57, "D": 2**21}  # from 1970 to years of four digits


Kinds = Mapping[str, Literal["number", "text", "id", "key", "any"]]
"""The columns to read, each as "number": float64 where all cells are numbers, "text", "id": integers or text and never fractions,
"key": numbers, or text if one of them is written as a name, such as 007, or "any": the type of its first rows."""


@dataclass(frozen=True)
class Table:
    """Rows in memory, with the columns that identify a row in a message."""

    frame: pl.DataFrame
    row: Callable[[int], str]
    id: str
    time: str | None

    def where(self, row: int) -> str:
        """id, time and number of a row."""
        time = "" if self.time is None else f", time {shown(self.frame[self.time], row)}"
        return f"id {shown(self.frame[self.id], row)!r}{time} ({self.row(row)})"

    def ids(self) -> pl.Series:
        """Return the id of each row. Raises ValueError for a row without an id."""
        return every_id(self.frame[self.id], self.row)


@dataclass(frozen=True)
class Source:
    """A path or frame that a user passed as a table, and the names of its columns."""

    columns: tuple[str, ...]
    name: str
    files: tuple[Path, ...] = ()
    frame: pl.DataFrame | None = None
    files_are_sequences: bool = False

    def load(self, kinds: Kinds, id: str, time: str | None = None) -> Table:
        """Read the columns that are used. If every file is a sequence, `id` is a new column with the name of the file."""
        if self.frame is not None:
            return Table(self.frame.select(list(kinds)), f"row {{}} of {self.name}".format, id, time)
        frame, lengths = (_parquet if is_parquet(self.files[0]) else _csv)(self.files, kinds)
        if id not in self.columns:
            names = as_ids(pl.Series(id, map(_stem, self.files)))
            frame = frame.with_columns(names.gather(np.repeat(np.arange(len(names)), lengths)))
            if 0 in lengths and len(frame):  # a file without rows gets an empty row, and so an empty sequence
                frame = names.to_frame().join(frame, on=id, how="left", maintain_order="left_right")
                lengths = [max(length, 1) for length in lengths]
        return Table(frame, partial(self._row, lengths), id, time)

    def scan(self, kinds: Kinds, id: str, typed: bool = True) -> Scan:
        """The columns that are used, to be read a batch at a time. Unless `typed`, all columns of a CSV file are text."""
        if self.frame is not None:
            return Scan(self.frame.select(list(kinds)).lazy(), f"row {{}} of {self.name}".format, False)
        parts, numeric = [], id not in self.columns
        for file in self.files:
            if is_parquet(file):
                part = pl.scan_parquet(file, glob=False)
            else:
                source = content(file)
                options, numbers = _types(content(self.files[0]), kinds)
                options |= {"separator": header(source)[0]} | ({} if typed else TEXTS)
                part, numeric = pl.scan_csv(source, **options), numeric or id in numbers
            if id not in self.columns:
                part = part.with_columns(pl.lit(_stem(file)).alias(id))
                if part.head(1).collect().is_empty():  # an empty row, and so an empty sequence
                    part = pl.concat([part, pl.LazyFrame({id: [_stem(file)]})], how="diagonal_relaxed")
            parts.append(part.select(id, *(name for name in kinds if name != id)))

        def row(index: int) -> str:
            return self._row([part.select(pl.len()).collect().item() for part in parts], index)

        return Scan(pl.concat(parts, how="vertical_relaxed"), row, numeric)

    def _row(self, lengths: Sequence[int], index: int) -> str:
        """The file and the line of a row, for a message. `lengths`: rows of each file."""
        starts = np.cumsum([0, *lengths[:-1]]).tolist()
        file = bisect_right(starts, index) - 1
        row, path = index - starts[file], self.files[file]
        return f"row {row} of '{path.name}'" if is_parquet(path) else f"line {line_of(path, row)} of '{path.name}'"


class Scan(NamedTuple):
    """Rows to be read a batch at a time, words for a row, and whether ids of text may be written as numbers."""

    rows: pl.LazyFrame
    row: Callable[[int], str]
    numeric: bool


def shown(cells: pl.Series, row: int) -> Any:
    """A cell, for a message: text without quotes, whole numbers without a fraction."""
    unit = getattr(cells.dtype, "time_unit", "D" if cells.dtype == pl.Date else None)
    if unit in PRINTABLE and abs(cells.to_physical()[row] or 0) > PRINTABLE[unit]:
        return f"{cells.to_physical()[row]} {unit}"  # polars panics
    value = cells[row]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def every_id(column: pl.Series, row: Callable[[int], str]) -> pl.Series:
    """Return ids as integers or text. Raises ValueError for a row without an id."""
    none = empty(column)
    if not none.any():
        ids = id_series(column, row)
        none = none | (ids == "" if ids.dtype == pl.String else False)
    if none.any():
        row_without = row(int(none.arg_max() or 0))
        raise ValueError(f"each row must have an id, and {row_without} has none in the column {column.name!r}.")
    return ids


def open_source(source: Any) -> Source:
    """A path, a folder, a frame or a dictionary of columns, with the names of its columns."""
    if isinstance(source, str | Path):
        path = named(source).expanduser()
        if path.is_dir():
            return _open_folder(path)
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder '{path}'.")
        _check_file(path)
        return Source(_columns_of(path), f"'{path.name}'", (path,))
    if isinstance(source, Mapping):
        frame = _from_columns({str(name): column for name, column in source.items()})
    else:
        frame = _from_frame(source)
    return Source(tuple(frame.columns), MEMORY, frame=frame)


def is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet file, by its name."""
    return path.suffix.lower() in PARQUET


def _open_folder(folder: Path) -> Source:
    """The tables of a folder, sorted by name. Their formats and columns must be the same."""
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    files = tuple(file for file in found if file.suffix.lower() in FORMATS and not file.name.startswith("."))
    if not files:
        raise ValueError(f"the folder '{folder}' must have files that end in {', '.join(FORMATS)}, and has none.")
    for file in files:
        _check_file(file)
    columns, first = _columns_of(files[0]), _first_line(files[0])
    for file in files[1:]:
        if file.suffix != files[0].suffix:
            raise ValueError(
                f"all files of '{folder}' must end alike, got '{files[0].name}' and '{file.name}'. "
                "Convert or rename some, or move files that are no measurements elsewhere."
            )
        if _first_line(file) != first and _columns_of(file) != columns:
            raise ValueError(
                f"all files of '{folder}' must have the columns {listed(columns)} of '{files[0].name}'; "
                f"'{file.name}' has others. Move files that are no measurements elsewhere."
            )
    sequences = not any(name in columns for name in KNOWN["id"])
    for twice in repeated(map(_stem, files)) if sequences else ():
        raise ValueError(f"each file of '{folder}' must have its own name, which is its id, got {twice!r} twice. Rename one.")
    return Source(columns, f"'{folder.name}'", files, files_are_sequences=sequences)


def _stem(file: Path) -> str:
    """The name of a file without the endings of its format and compression."""
    return Path(file.stem if file.suffix.lower() in COMPRESSED else file).stem.strip()


def _check_file(path: Path) -> None:
    """Raise a ValueError for anything but a regular file with a name in UTF-8, which is what polars reads."""
    check_utf8(path)
    if not path.is_file():
        raise ValueError(f"'{path}' must be a regular file. Copy what it contains to one.")


def _first_line(file: Path) -> bytes:
    """The first line of a file, as it is on the disk."""
    with file.open("rb") as opened:
        return opened.readline().strip()


def _columns_of(path: Path) -> tuple[str, ...]:
    """The names of a file's columns."""
    if is_parquet(path):
        with refused(path, "a Parquet file"):
            return tuple(pl.scan_parquet(path, glob=False).collect_schema())
    if path.suffix.lower() in TEXT:
        return csv_columns(path)
    raise ValueError(f"the name of a table must end in {', '.join(FORMATS)}, got '{path.name}'. Convert or rename it.")


def _csv(files: Sequence[Path], kinds: Kinds) -> tuple[pl.DataFrame, list[int]]:
    """The rows of CSV files of the same columns, and the number of rows of each."""
    if len(files) == 1:
        frame = read_csv(files[0], kinds)
        return frame, [len(frame)]
    headers = {_first_line(file) for file in files}
    if files[0].suffix.lower() not in COMPRESSED and len(headers) == 1 and b"" not in headers:
        # One pass over all files: polars takes longer to open thousands of small files than to read the rows.
        contents = [file.read_bytes() for file in files]
        header = contents[0].partition(b"\n")[0] + b"\n"
        bodies = [content.partition(b"\n")[2] for content in contents]
        bodies = [body if not body or body.endswith(b"\n") else body + b"\n" for body in bodies]
        lengths = [body.count(b"\n") for body in bodies]
        with suppress(ValueError):  # a file that cannot be read is found below, by its name
            frame = read_csv(files[0], kinds, header + b"".join(bodies))
            if len(frame) == sum(lengths):  # no line break within quotes
                return frame, lengths
    parts = [read_csv(file, dict.fromkeys(kinds, "text")) for file in files]
    return as_numbers(pl.concat(parts), kinds), [len(part) for part in parts]


def _parquet(files: Sequence[Path], kinds: Kinds) -> tuple[pl.DataFrame, list[int]]:
    """The rows of Parquet files, and the number of rows of each. Numbers may be integers in one file, fractions in another."""
    parts: list[pl.DataFrame] = []
    for file in files:
        with refused(file, "a Parquet file"):
            part = pl.read_parquet(file, columns=list(kinds), glob=False)
        ids = [part[name] for name, kind in kinds.items() if kind == "id" and not empty(part[name]).any()]
        # Ids are converted here, so that other types in other files do not change them. A missing id is refused later.
        parts.append(part.with_columns(id_series(column, f"row {{}} of '{file.name}'".format) for column in ids))
    first, read = parts[0].schema, [*zip(files, parts, strict=True)]
    others = [(name, *each) for name in first for each in read if each[1].schema[name] != first[name]]
    for name, file, part in others:
        try:
            pl.concat([parts[0].select(name)[:0], part.select(name)[:0]], how="vertical_relaxed")
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"the column {name!r} must be of one kind in all files, got {first[name]} in '{files[0].name}' and "
                f"{part.schema[name]} in '{file.name}'. Write it again with one type."
            ) from error
    return pl.concat(parts, how="vertical_relaxed"), [len(part) for part in parts]


def content(path: Path) -> Path | bytes:
    """Return the path, or the content of a file that polars does not decompress itself."""
    return lzma.decompress(path.read_bytes()) if path.suffix.lower() == ".xz" else path


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
    for twice in repeated(names):
        raise ValueError(f"each column of {where} must have its own name, got {twice!r} twice. Rename or remove one.")


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
        options, numbers = _types(source, kinds)
        try:
            frame = pl.read_csv(source, **options).select(list(kinds))
        except pl.exceptions.ComputeError:  # a later row is of another type: all as text, checked value by value
            frame = pl.read_csv(source, **options | TEXTS).select(list(kinds))
    return as_numbers(frame, numbers)


def _types(source: Path | bytes, kinds: Kinds) -> tuple[dict[str, Any], Kinds]:
    """Return how polars reads a file, and the columns that are numbers in its first rows."""
    options: dict[str, Any] = {"separator": header(source)[0], "glob": False}
    sample = pl.scan_csv(source, infer_schema_length=SAMPLE, **options).collect_schema()
    numeric = {name for name in kinds if name in sample and sample[name].is_numeric()}
    numbers = {name: kind for name, kind in kinds.items() if name in numeric or (kind == "id" and sample[name] == pl.Boolean)}
    # All columns are read: otherwise polars accepts a row with too many cells, such as one with 36,6 for 36.6.
    types: dict[str, Any] = dict.fromkeys(sample, pl.String)
    types |= {name: pl.Float64 for name, kind in numbers.items() if kind == "number"}
    types |= {name: sample[name] for name, kind in kinds.items() if kind == "any" or (kind == "key" and name not in numbers)}
    return options | {"schema_overrides": types}, numbers


def as_numbers(frame: pl.DataFrame, kinds: Kinds) -> pl.DataFrame:
    """Convert columns of text that are numbers: ids to integers, keys to any numbers unless one is written as 007."""
    convert = {"id": as_ids, "key": _as_number}
    return frame.with_columns(convert[kind](frame[name]) for name, kind in kinds.items() if kind in convert)


def _as_number(column: pl.Series) -> pl.Series:
    if column.dtype != pl.String or column.null_count() == len(column):
        return column
    with_zero = column.filter(column.str.starts_with("0") | column.str.starts_with("-0"))
    if with_zero.str.contains(r"^-?0\d").any():
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


def _from_frame(source: Any) -> pl.DataFrame:
    """Return a frame of polars, pandas, arrow or another library with `__arrow_c_stream__` as a frame of polars."""
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        check_names(map(str, source.columns), MEMORY)
        return _from_columns({str(name): column for name, column in source.items()})
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.Series) or not hasattr(source, "__arrow_c_stream__"):
        raise _no_table(source)
    try:
        frame = pl.DataFrame(source)
    except pl.exceptions.DuplicateError as error:
        raise ValueError(f"each column of {MEMORY} must have its own name, got: {error}. Rename or remove one.") from error
    except pl.exceptions.PolarsError as error:  # arrays and columns have `__arrow_c_stream__` too
        raise _no_table(source) from error
    mixed = [name for name, dtype in frame.schema.items() if dtype == pl.Object]
    return frame.with_columns(_series(name, frame[name].to_list()) for name in mixed)


def _no_table(source: object) -> TypeError:
    """The error about an object that is no table."""
    return TypeError(
        "a table must be a path, a frame of pandas, polars or arrow, or a dictionary of columns, "
        f"got {type(source).__name__}. For a list of (times, values) use Events.of."
    )


def _from_columns(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return lists as a frame. A list with values of several types becomes text, and its values are checked later."""
    made = {name: _series(name, column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in made.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have one length, got {lengths}.")
    return pl.DataFrame(made)


def _series(name: str, column: Any) -> pl.Series:
    """Return a column: float64 for numbers and None, text for values of several types."""
    # polars would convert mixed values and ignore a mask.
    if isinstance(column, np.ndarray) and column.dtype.kind == "M" and not isinstance(column, np.ma.MaskedArray):
        ticks, wrong = ticks_of(column)
        if not wrong[~np.isnat(column)].any():
            return pl.Series(name, ticks.astype("datetime64[us]"))
    listed = str(getattr(column, "dtype", "")) == "object" or isinstance(column, np.ma.MaskedArray)
    cells = column.tolist() if listed else column
    if isinstance(cells, list | tuple) and len({each.tzinfo is None for each in cells if isinstance(each, datetime)}) > 1:
        cells = [None if _absent(each) else str(each) for each in cells]  # polars would ignore the offsets
    try:
        return pl.Series(name, cells)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        cells = list(cells)
    if all(each is None or isinstance(each, numbers.Real) for each in cells):
        return pl.Series(name, [None if each is None else as_float(each) for each in cells], dtype=pl.Float64, strict=False)
    return pl.Series(name, [None if _absent(each) else str(each) for each in cells], dtype=pl.String)


def _absent(value: Any) -> bool:
    """Whether a cell is empty: None, or NaN or NaT, which differ from themselves, or pandas' NA, which has no truth value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
