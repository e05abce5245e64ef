"""A folder of records: files of one run and files of one study. Reading changes no file."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import NamedTuple

from phased import files
from phased_lab.runs.record import Record, parse

SUFFIX = ".jsonl"


class Reading(NamedTuple):
    """The records of a folder, and a message for each file or line that was skipped."""

    records: list[Record]
    skipped: list[str]


def read(folder: Path) -> Reading:
    """Return all records in the `*.jsonl` files under a folder, by path, with a warning for each skipped line."""
    check_folder(folder)
    found = [lines(file) for file in sorted(folder.rglob(f"*{SUFFIX}"))]
    return Reading([each for records, _ in found for each, _ in records], [each for _, skipped in found for each in skipped])


def check_folder(folder: Path) -> None:
    """Raise an error if there is no such folder."""
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder '{folder}'. Name the one that `phased run` wrote its results to.")


def lines(file: Path) -> tuple[list[tuple[Record, bytes]], list[str]]:
    """The records of a file with their lines, and a message for each line that was skipped, which is warned of."""
    records: list[tuple[Record, bytes]] = []
    skipped: list[str] = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            records.append((parse(line), line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"'{file}', line {number}: skipped, it is not the record of a run ({error!r}). The file was not changed."
            warnings.warn(message, stacklevel=2)
            skipped.append(message)
    return records, skipped


def gather(folder: Path) -> dict[Path, int]:
    """Move the records of single runs into one file per study, sorted by name; returns the number of records in each file.

    From `<folder>/<experiment>/*.jsonl`, where sweeps write them, to `<folder>/<study>.jsonl`, line by line. Of several
    records of a run with the same settings the latest is kept. Files of records that belong to another file or folder stay.

    Raises:
        ValueError: a line is not a record. Nothing is moved.
    """
    check_folder(folder)
    studies: dict[Path, dict[tuple[str, ...], tuple[str, bytes]]] = {}
    sources: set[Path] = set()
    for file in (*sorted(folder.glob(f"*{SUFFIX}")), *sorted(folder.glob(f"*/*{SUFFIX}"))):
        for record, line in whole(file, folder):
            sources.add(file)
            kept = studies.setdefault(folder / f"{record.study}{SUFFIX}", {})
            key = record.name, record.scale, json.dumps(record.settings, sort_keys=True)
            kept[key] = max((record.date, line), kept.get(key, ("", b"")), key=lambda dated: dated[0])
    for path, found in studies.items():
        files.write_whole(path, b"".join(found[key][1] + b"\n" for key in sorted(found)))
    for file in sources - studies.keys():
        file.unlink()
    return {path: len(studies[path]) for path in sorted(studies)}


def whole(file: Path, folder: Path) -> list[tuple[Record, bytes]]:
    """Return the records of a file with their lines, or [] if one belongs to another file or folder."""
    own, name = ("study", file.stem) if file.parent == folder else ("experiment", file.parent.name)
    records, skipped = lines(file)
    if skipped:
        raise ValueError(f"'{file}' must be a file with a record in every line. Repair it, or move it away.")
    return [] if any(getattr(record, own) != name for record, _ in records) else records
