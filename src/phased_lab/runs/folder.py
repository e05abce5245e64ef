"""A folder of records: files of one run and files of one study. Reading changes no file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from phased import files
from phased.lock import locked
from phased_lab.runs.record import Malformed, Record, parse

SUFFIX = ".jsonl"
GATHERING = ".gathering"  # locked while records move


class Reading(NamedTuple):
    """The records of a folder, and a message for each file or line that was skipped."""

    records: list[Record]
    skipped: list[str]


def read(folder: Path) -> Reading:
    """Return all records in the `*.jsonl` files under a folder, by path, with a warning for each skipped line."""
    check_folder(folder)
    reading = Reading([], [])
    for file in sorted(folder.rglob(f"*{SUFFIX}")):
        read_file(file, reading)
    return reading


def check_folder(folder: Path) -> None:
    """Raise an error if there is no such folder."""
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder '{folder}'. Name the one that `phased run` wrote its results to.")


def read_file(file: Path, reading: Reading) -> None:
    """Add the records of one file to `reading`, and a message if it cannot be read, or for each line that is not a record."""
    for _, found in lines(file):
        if isinstance(found, Record):
            reading.records.append(found)
        else:
            reading.skipped.append(found)


def lines(file: Path) -> Iterator[tuple[bytes, Record | str]]:
    """Yield each line of a file that is not blank with its record, or with the message that it is skipped, which is warned of."""
    try:
        content = file.read_bytes()
    except OSError as error:
        yield b"", skip(file, f"it cannot be read: {files.reason(error)}")
        return
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield line, parse(line)
            except Malformed as reason:
                yield line, skip(file, reason, f", line {number}")


def skip(file: Path, reason: object, line: str = "") -> str:
    """Warn that a file or line is skipped, and return the message."""
    sentence = f"'{files.printable(str(file))}'{line}: skipped, {reason}. The file was not changed."
    warnings.warn(sentence, stacklevel=3)
    return sentence


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
            records = _whole_file(file, folder)
            if records is None:
                continue
            sources.append(file)
            for record, line in records:
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
    return sorted((*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*/*{SUFFIX}")))


def _whole_file(file: Path, folder: Path) -> list[tuple[Record, bytes]] | None:
    """The records of a study's or an experiment's file with their lines; None for other files, or if a line is not a record."""
    found = []
    for line, record in lines(file):
        if isinstance(record, str):
            return None
        found.append((record, line.strip() + b"\n"))
    own, name = ("study", file.stem) if file.parent == folder else ("experiment", file.parent.name)
    return found if {getattr(record, own) for record, _ in found} == {name} else None
