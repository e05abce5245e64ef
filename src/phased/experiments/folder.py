"""A folder of records: files of one run, files of one study, and possibly other files. Reading changes no file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from phased import files
from phased.experiments import reader
from phased.experiments.fields import Malformed
from phased.experiments.record import Record, parse

MOST_BAD_LINES = 100  # per file: a file with more is not a file of records, and the rest of it is not read
SUFFIX = ".jsonl"
FIT_FOR_A_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Reading(NamedTuple):
    """The records of a folder, and a message for each file, line or folder that was skipped."""

    records: list[Record]
    skipped: list[str]


def read(folder: Path) -> Reading:
    """All records in the `*.jsonl` files under a folder, in the order of the paths; one warning for each skipped file or line."""
    check_folder(folder)
    reading = Reading([], [])
    found, unlisted = reader.find(folder, SUFFIX)
    for closed, reason in unlisted.items():
        reading.skipped.append(reader.skip(reader.quoted(closed), reason))
    for file in found:
        read_file(file, reading)
    return reading


def check_folder(folder: Path) -> None:
    """Raise an error if there is no such folder."""
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder '{folder}'. Name the one that `phased run` wrote its results to.")


def read_file(file: Path, reading: Reading) -> None:
    """Add the records of one file to `reading`, and a message for each skipped line."""
    bad = 0
    try:
        for number, line in _filled_lines(file):
            try:
                reading.records.append(parse(line))
            except Malformed as reason:
                reading.skipped.append(reader.skip(f"{reader.quoted(file)}, line {number}", reason))
                bad += 1
            if bad == MOST_BAD_LINES:
                raise reader.Unreadable(f"from line {number + 1} on, after {bad} lines that are not results")
    except reader.Unreadable as reason:
        reading.skipped.append(reader.skip(reader.quoted(file), reason))


def _filled_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers; `Unreadable` if there are none."""
    empty = True
    for number, line in reader.lines(file):
        if line.strip():
            empty = False
            yield number, line
    if empty:
        raise reader.Unreadable("it is empty")


def gather(folder: Path) -> dict[Path, int]:
    """Move the records of single runs into one file per study, sorted by name; returns the number of records in each file.

    Of several records of a run with the same settings the latest is kept. Files with a line that is not a record are not changed.
    """
    check_folder(folder)
    by_study: dict[str, dict[tuple[str, ...], Record]] = {}
    sources: list[Path] = []
    for file in reader.find(folder, SUFFIX)[0]:
        reading = Reading([], [])
        read_file(file, reading)
        if not reading.skipped and not all(FIT_FOR_A_FILE.fullmatch(record.study) for record in reading.records):
            reading.skipped.append(reader.skip(reader.quoted(file), "it has a study whose name cannot be a file name"))
        if reading.skipped:
            continue
        sources.append(file)
        for record in reading.records:
            kept = by_study.setdefault(record.study, {})
            key = record.name, record.scale, json.dumps(record.settings, sort_keys=True)
            if key not in kept or record.date >= kept[key].date:
                kept[key] = record
    paths = {study: folder / f"{study}{SUFFIX}" for study in sorted(by_study)}
    for path in paths.values():
        if path.exists() and path not in sources:
            raise ValueError(f"'{path}' must have a record in every line, or some would be lost. Repair it, or move it away.")
    written = {}
    for study, path in paths.items():
        records = by_study[study]
        files.write_whole(path, "".join(records[key].line() for key in sorted(records)).encode())
        written[path] = len(records)
    for file in sources:
        if file not in written:
            file.unlink()
    return written
