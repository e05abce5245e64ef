"""Reading results: one JSON line a run. What is not a result is skipped and named; nothing is deleted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from phased.report import fields, reader
from phased.report.fields import Malformed

LAST = 5  # epochs a result is the mean of: one test has 500 sequences, and is good to half a percent only

# Bounds of what is believed to be a result; all are far beyond any real run.
MOST_EPOCHS = 10**9
MOST_UNITS = 10_000
LARGEST_SEED = 2**64
MOST_BAD_LINES = 100  # in one file: what has more is no file of results, and is not read to its end


class Epoch(NamedTuple):
    """One point of a learning curve. A number that was not finite is nan; without time gates `updates` is None."""

    epoch: int
    loss: float
    test: float
    seconds: float
    updates: float | None


class Gates(NamedTuple):
    """The gates of one layer, one value a unit, in the order of the units."""

    period: tuple[float, ...]
    shift: tuple[float, ...]
    ratio_on: tuple[float, ...]


@dataclass(frozen=True)
class Result:
    """What one run left: who, where, with which settings, and its learning curve."""

    experiment: str
    name: str
    model: str
    condition: str
    scale: str
    seed: int
    settings: Mapping[str, Any]
    curve: tuple[Epoch, ...]
    wall: float
    updates: float | None
    before: Gates | None
    after: Gates | None
    versions: Mapping[str, Any]
    machine: Mapping[str, Any]
    date: str
    command: str

    @property
    def test(self) -> float:
        """The test metric's mean over the last epochs, each on fresh sequences: no epoch is picked by how well it did."""
        last = self.curve[-LAST:]
        return math.fsum(epoch.test for epoch in last) / len(last)

    @property
    def loss(self) -> float:
        """The training loss's mean over the same epochs: of sequences as fresh as the test's, but with the leak acting."""
        last = self.curve[-LAST:]
        return math.fsum(epoch.loss for epoch in last) / len(last)

    @property
    def device(self) -> str:
        """What it ran on: the accelerator, or the processor where there was none."""
        device = str(self.machine.get("device", "unknown"))
        return str(self.machine.get("processor", "CPU")) if device == "cpu" else device


class Reading(NamedTuple):
    """The results of a folder, and a sentence about each file, line or folder that was skipped."""

    results: list[Result]
    skipped: list[str]


def read(folder: Path) -> Reading:
    """Every result in the `*.jsonl` files under a folder, in the order of their paths; each thing skipped has one warning."""
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder '{folder}'. Name the one that `phased run` wrote its results to.")
    reading = Reading([], [])
    found, unlisted = reader.find(folder, ".jsonl")
    for closed, reason in unlisted.items():
        reading.skipped.append(reader.skip(reader.quoted(closed), reason))
    for file in found:
        bad = 0
        try:
            for number, line in _filled_lines(file):
                try:
                    reading.results.append(parse(line))
                except Malformed as reason:
                    reading.skipped.append(reader.skip(f"{reader.quoted(file)}, line {number}", reason))
                    bad += 1
                if bad == MOST_BAD_LINES:
                    raise reader.Unreadable(f"from line {number + 1} on: {bad} lines before it are not results")
        except reader.Unreadable as reason:
            reading.skipped.append(reader.skip(reader.quoted(file), reason))
    return reading


def _filled_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers; a file has at least one."""
    empty = True
    for number, line in reader.lines(file):
        if line.strip():
            empty = False
            yield number, line
    if empty:
        raise reader.Unreadable("it is empty")


def parse(line: bytes | str) -> Result:
    """One line as a result; `Malformed` says what else it is."""
    found = fields.load(line)
    before, after = _gates(found.get("gates"))
    text = {key: fields.text(found, key) for key in ("experiment", "name", "model", "condition", "scale", "date", "command")}
    return Result(
        **text,
        seed=fields.integer(found, "seed", -LARGEST_SEED, LARGEST_SEED),
        settings=fields.nested(found, "settings"),
        curve=_curve(fields.get(found, "curve", list)),
        wall=fields.number(found, "wall"),
        updates=fields.share(found, "updates"),
        before=before,
        after=after,
        versions=fields.nested(found, "versions"),
        machine=fields.nested(found, "machine"),
    )


def _curve(points: list[Any]) -> tuple[Epoch, ...]:
    if not points or not all(isinstance(point, dict) for point in points):
        raise Malformed("'curve' must be a list of at least one epoch")
    curve = tuple(_epoch(point) for point in points)
    for one, following in pairwise(curve):
        if one.epoch >= following.epoch:
            raise Malformed(f"'epoch' must increase along 'curve', got {following.epoch} after {one.epoch}")
    return curve


def _epoch(point: dict[str, Any]) -> Epoch:
    loss, test, seconds = (fields.number(point, key) for key in ("loss", "test", "seconds"))
    return Epoch(fields.integer(point, "epoch", 1, MOST_EPOCHS), loss, test, seconds, fields.share(point, "updates"))


def _gates(gates: Any) -> tuple[Gates, Gates] | tuple[None, None]:
    """A layer's gates before and after training; None where a result has none, or where training drove them out of all bounds."""
    if not gates:
        return None, None
    try:
        before, after = (
            Gates(*(fields.numbers(gates[field][when], "gates") for field in Gates._fields)) for when in ("before", "after")
        )
    except (KeyError, TypeError) as error:
        raise Malformed("'gates' must hold numbers before and after for period, shift and ratio_on") from error
    values = [*before, *after]
    if len({len(value) for value in values}) != 1:
        raise Malformed("'gates' must have as many periods as shifts and ratios")
    if len(before.period) > MOST_UNITS:
        raise Malformed(f"'gates' must be of at most {MOST_UNITS} units, got {len(before.period)}")
    finite = all(math.isfinite(number) for value in values for number in value)
    return (before, after) if finite and min([*before.period, *after.period], default=0.0) > 0 else (None, None)
