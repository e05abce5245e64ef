"""Folders of tables: a file per sequence, or parts of one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

from phased.estimator.tables.columns import listed
from phased.estimator.tables.csv_file import COMPRESSED, Kinds, as_numbers, read_csv
from phased.files import check_utf8


def list_files(
    folder: Path, suffixes: Sequence[str], columns_of: Callable[[Path], tuple[str, ...]]
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The tables of a folder, sorted by name, and their columns, which must be the same in all."""
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    files = tuple(file for file in found if file.suffix.lower() in suffixes and not file.name.startswith("."))
    if not files:
        raise ValueError(f"the folder '{folder}' must have files that end in {', '.join(suffixes)}, and has none.")
    for file in files:
        check_file(file)
    columns = columns_of(files[0])
    first = _header(files[0])
    for file in files[1:]:
        if file.suffix != files[0].suffix or (_header(file) != first and columns_of(file) != columns):
            raise ValueError(
                f"all files of '{folder}' must have the columns {listed(columns)} of '{files[0].name}'; "
                f"'{file.name}' has others. Move files that are no measurements elsewhere."
            )
    return files, columns


def check_file(path: Path) -> None:
    """Raise a ValueError for anything but a regular file with a name in UTF-8, which is what polars reads."""
    check_utf8(path)
    if not path.is_file():
        raise ValueError(f"'{path}' must be a regular file. Copy what it contains to one.")


def _header(file: Path) -> bytes:
    """The first line of a file, as it is on the disk."""
    with file.open("rb") as opened:
        return opened.readline().strip()


def read_files(files: Sequence[Path], kinds: Kinds) -> tuple[pl.DataFrame, list[int]]:
    """The rows of CSV files of the same columns, and the number of rows of each."""
    if files[0].suffix.lower() not in COMPRESSED and len({_header(file) for file in files}) == 1:
        # One pass over all of them: thousands of small files take longer to open in polars than to read.
        contents = [file.read_bytes() for file in files]
        header = contents[0].partition(b"\n")[0] + b"\n"
        bodies = [content.partition(b"\n")[2] for content in contents]
        bodies = [body if not body or body.endswith(b"\n") else body + b"\n" for body in bodies]
        lengths = [body.count(b"\n") for body in bodies]
        with suppress(ValueError):  # a file that cannot be read is found below, by its name
            frame = read_csv(files[0], kinds, header + b"".join(bodies))
            if len(frame) == sum(lengths):  # no line break within quotes
                return frame, lengths
    parts = [read_csv(file, Kinds(kinds.used, texts=kinds.used)) for file in files]
    return as_numbers(pl.concat(parts), kinds.ids, kinds.keys), [len(part) for part in parts]
