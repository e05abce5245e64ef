"""Sources of tables: CSV and Parquet files, folders of them, and frames of pandas, polars or arrow."""

from __future__ import annotations

import numbers
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from phased.check import as_float
from phased.estimator.tables.columns import KNOWN
from phased.estimator.tables.csv_file import COMPRESSED, Kinds, csv_columns, read_csv, refused
from phased.estimator.tables.folder import check_file, list_files, read_files
from phased.estimator.tables.keys import id_series
from phased.estimator.units import ticks_of
from phased.files import named

TEXT = (".csv", ".tsv", ".txt", *COMPRESSED)
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Table:
    """A table in memory, and where its rows come from."""

    frame: pl.DataFrame
    name: str
    files: tuple[Path, ...] = ()  # in the order of their rows
    starts: tuple[int, ...] = ()  # the first row of each file

    def row(self, index: int) -> str:
        """Where a row is, for a message."""
        if not self.files:
            return f"row {index} of {self.name}"
        file = bisect_right(self.starts, index) - 1
        row, name = index - self.starts[file], self.files[file].name
        return f"row {row} of '{name}'" if self.files[file].suffix.lower() in PARQUET else f"line {row + 2} of '{name}'"


@dataclass(frozen=True)
class Source:
    """What a user passed as a table, opened as far as its columns are known."""

    columns: tuple[str, ...]
    name: str
    files: tuple[Path, ...] = ()
    frame: pl.DataFrame | None = None
    files_are_sequences: bool = False

    def load(self, kinds: Kinds, ids: str = "") -> Table:
        """Its rows; of a file only the columns that are used. `ids` is the new column with the names of files."""
        if self.frame is not None:
            return Table(self.frame.select(kinds.used), self.name)
        if self.files[0].suffix.lower() in PARQUET:
            parts = [_read_parquet(file, list(kinds.used)) for file in self.files]
            files = zip(self.files, parts, strict=True)
            ids_there = [name for name in kinds.ids if name in self.columns]
            parts = [part.with_columns(_as_ids(part[name], file) for name in ids_there) for file, part in files]
            frame, lengths = self._with_ids(_one_frame(self.files, parts), [len(part) for part in parts], ids)
        elif len(self.files) == 1 and not self.files_are_sequences:
            return Table(read_csv(self.files[0], kinds), self.name, self.files, (0,))
        else:
            frame, lengths = self._with_ids(*read_files(self.files, kinds), ids)
        starts = [0]
        for length in lengths:
            starts.append(starts[-1] + length)
        return Table(frame, self.name, self.files, tuple(starts[:-1]))

    def _with_ids(self, frame: pl.DataFrame, lengths: list[int], ids: str) -> tuple[pl.DataFrame, list[int]]:
        """The rows of the files, with the name of each row's file as its id, and their numbers.

        A file without rows gets an empty one, so that its sequence is there. Without any row the table stays empty.
        """
        if not self.files_are_sequences or not len(frame):
            return frame, lengths
        if 0 in lengths:
            place = np.insert(np.arange(len(frame)), np.cumsum(lengths)[np.equal(lengths, 0)], -1)
            rows = pl.Series(place).replace(-1, None)
            frame, lengths = frame.select(pl.all().gather(rows)), [max(length, 1) for length in lengths]
        names = [_stem(file) for file in self.files]
        whole = all(name.isascii() and name.isdigit() and str(int(name)) == name and int(name) < 2**63 for name in names)
        series = pl.Series(ids, names).cast(pl.Int64 if whole else pl.String)
        return frame.with_columns(series.gather(np.repeat(np.arange(len(names)), lengths))), lengths


def open_source(source: Any) -> Source:
    """A path, a folder, a frame or a dictionary of columns, with the names of its columns."""
    if isinstance(source, str | Path):
        return _open_path(named(source).expanduser())
    if isinstance(source, Mapping):
        frame = _from_columns({str(name): column for name, column in source.items()})
    else:
        frame = _from_frame(source)
    return Source(tuple(frame.columns), "the table", frame=frame)


def _stem(file: Path) -> str:
    """The name of a file without the endings of its format and compression."""
    return Path(file.stem if file.suffix.lower() in COMPRESSED else file).stem.strip()


def _open_path(path: Path) -> Source:
    """A file, or a folder of files of one kind."""
    if path.is_dir():
        files, columns = list_files(path, (*TEXT, *PARQUET), _columns_of)
        sequences = not any(name in columns for name in KNOWN["id"])
        twice = [name for name, count in Counter(map(_stem, files)).items() if count > 1]
        if sequences and twice:
            raise ValueError(
                f"each file of '{path}' must have its own name, which is its id, got {twice[0]!r} twice. Rename one."
            )
        return Source(columns, f"'{path.name}'", files, files_are_sequences=sequences)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder '{path}'.")
    check_file(path)
    return Source(_columns_of(path), f"'{path.name}'", (path,))


def _columns_of(path: Path) -> tuple[str, ...]:
    """The names of a file's columns."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        with refused(path, "a Parquet file"):
            return tuple(pl.scan_parquet(path, glob=False).collect_schema())
    if suffix in TEXT:
        return csv_columns(path)
    raise ValueError(f"the name of a table must end in {', '.join((*TEXT, *PARQUET))}, got '{path.name}'. Convert or rename it.")


def _read_parquet(path: Path, columns: list[str]) -> pl.DataFrame:
    with refused(path, "a Parquet file"):
        return pl.read_parquet(path, columns=columns, glob=False)


def _as_ids(column: pl.Series, file: Path) -> pl.Series:
    """Ids as integers or text, so that files with other types do not change them. A missing id is refused later."""
    absent = column.is_null().any() or (column.dtype.is_float() and column.is_nan().any())
    return column if absent else id_series(column, lambda row: f"row {row} of '{file.name}'")


def _one_frame(files: Sequence[Path], parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of Parquet files; a column may be of integers in one and of fractions in another."""
    try:
        return pl.concat(parts, how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        for name, dtype in parts[0].schema.items():
            for file, part in zip(files[1:], parts[1:], strict=True):
                try:
                    pl.concat([parts[0].select(name)[:0], part.select(name)[:0]], how="vertical_relaxed")
                except pl.exceptions.PolarsError as error:
                    raise ValueError(
                        f"the column {name!r} must be of one kind in all files, got {dtype} in '{files[0].name}' and "
                        f"{part.schema[name]} in '{file.name}'. Write it again with one type."
                    ) from error
        raise


def _from_frame(source: Any) -> pl.DataFrame:
    """A frame of pandas, polars, arrow or another library that narwhals supports."""
    try:
        frame = nw.from_native(source)
    except TypeError as error:
        raise TypeError(
            "a table must be a path, a frame of pandas, polars or arrow, or a dictionary of columns, "
            f"got {type(source).__name__}. For a list of (times, values) use Events.of."
        ) from error
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    mixed = [name for name, dtype in eager.schema.items() if dtype == nw.Object]
    plain = [name for name in eager.columns if name not in mixed]
    if not mixed:
        return eager.to_polars()
    columns: dict[str, Any] = {str(name): eager.get_column(name).to_polars() for name in plain}
    columns |= {str(name): eager.get_column(name).to_list() for name in mixed}
    return _from_columns(columns).select([str(name) for name in eager.columns])


def _from_columns(columns: Mapping[str, Any]) -> pl.DataFrame:
    """A frame of lists; one with values of several types becomes text, whose values are checked later."""
    made = {name: _series(name, column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in made.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have one length, got {lengths}.")
    return pl.DataFrame(made)


def _series(name: str, column: Any) -> pl.Series:
    """A column; of numbers and None float64, of several types text."""
    # polars would convert what is mixed, and ignore a mask.
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
