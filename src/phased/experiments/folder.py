"""A folder of records: files of one run, files of one study, and possibly other files. Reading changes no file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from phased import files
from phased.experiments import reader
from phased.experiments.fields import Malformed
from phased.experiments.record import Record, parse
from phased.lock import locked

MOST_BAD_LINES = 100  # per file: a file with more is not a file of records, and the rest of it is not read
SUFFIX = ".jsonl"
GATHERING = ".gathering"  # locked while records move
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

    From `<folder>/<experiment>/*.jsonl`, where sweeps write them, to `<folder>/<study>.jsonl`, line by line. Of several
    records of a run with the same settings the latest is kept. A file with a line that is not a record is not changed.
    """
    check_folder(folder)
    with locked(folder / GATHERING, wait=True):
        by_study: dict[str, dict[tuple[str, ...], tuple[str, bytes]]] = {}
        sources: list[Path] = []
        for file in _gatherable(folder):
            lines = _whole_file(file, folder)
            if lines is None:
                continue
            sources.append(file)
            for record, line in lines:
                kept = by_study.setdefault(record.study, {})
                key = record.name, record.scale, json.dumps(record.settings, sort_keys=True)
                if key not in kept or record.date >= kept[key][0]:
                    kept[key] = record.date, line
        paths = {study: folder / f"{study}{SUFFIX}" for study in sorted(by_study)}
        for path in paths.values():
            if os.path.lexists(path) and path not in sources:
                raise ValueError(f"'{path}' must be a file with a record in every line. Repair it, or move it away.")
        for study, path in paths.items():
            found = by_study[study]
            files.write_whole(path, b"".join(found[key][1] for key in sorted(found)))
        for file in sources:
            if file not in paths.values():
                file.unlink(missing_ok=True)
    return {path: len(by_study[study]) for study, path in paths.items()}


def _gatherable(folder: Path) -> list[Path]:
    """The files of studies, and those in the folders of experiments."""
    return [file for file in reader.find(folder, SUFFIX)[0] if len(file.relative_to(folder).parts) <= 2]


def _whole_file(file: Path, folder: Path) -> list[tuple[Record, bytes]] | None:
    """The records of a study's or an experiment's file with their lines; None for other files, or if a line is not a record."""
    found = []
    try:
        for number, line in _filled_lines(file):
            try:
                found.append((parse(line), line.strip() + b"\n"))
            except Malformed as reason:
                reader.skip(f"{reader.quoted(file)}, line {number}", reason)
                return None
    except reader.Unreadable as reason:
        reader.skip(reader.quoted(file), reason)
        return None
    records = [record for record, _ in found]
    if not all(FIT_FOR_A_FILE.fullmatch(record.study) for record in records):
        reader.skip(reader.quoted(file), "it has a study whose name cannot be a file name")
        return None
    if file.parent == folder:
        return found if {record.study for record in records} == {file.stem} else None
    return found if {record.experiment for record in records} == {file.parent.name} else None
