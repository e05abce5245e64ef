"""Reading results: one JSON line a run. What is not a result is skipped and named; nothing is deleted."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
NAN = float("nan")


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


LAST = 5  # epochs a result is the mean of: one test has 500 sequences, and is good to half a percent only


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
    """The results of a folder, and a sentence about each line that is none."""

    results: list[Result]
    skipped: list[str]


class NotAResult(ValueError):
    """Why a line is not a result."""


def read(folder: Path) -> Reading:
    """Every result in the `*.jsonl` files under a folder, in the order of their paths; one warning for each line skipped."""
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder '{folder}'. Name the one that `phased run` wrote its results to.")
    reading = Reading([], [])

    def skip(place: str, reason: str) -> None:
        reading.skipped.append(f"{place}: skipped, {reason}. The file was left as it is.")
        warnings.warn(reading.skipped[-1], stacklevel=3)

    for file in sorted(folder.rglob("*.jsonl")):
        try:
            lines = file.read_bytes().splitlines()
        except OSError as error:
            skip(f"'{file}'", f"it cannot be read: {error.strerror or error}")
            continue
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    reading.results.append(parse(line))
                except NotAResult as reason:
                    skip(f"'{file}', line {number}", str(reason))
    return reading


def parse(line: bytes | str) -> Result:
    """One line as a result; `NotAResult` says what else it is."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError too
        raise NotAResult("it is cut off or not JSON") from error
    if not isinstance(found, dict):
        raise NotAResult(f"it holds {type(found).__name__}, not the object of a result")
    curve = _get(found, "curve", list)
    if not curve or not all(isinstance(point, dict) for point in curve):
        raise NotAResult("'curve' must be a list of at least one epoch")
    before, after = _gates(found.get("gates"))
    text = {key: _get(found, key, str) for key in ("experiment", "name", "model", "condition", "scale")}
    return Result(
        **text,
        seed=_get(found, "seed", int),
        settings=_get(found, "settings", dict),
        curve=tuple(_epoch(point) for point in curve),
        wall=_number(found, "wall"),
        updates=_share(found),
        before=before,
        after=after,
        versions=_get(found, "versions", dict),
        machine=_get(found, "machine", dict),
        date=_get(found, "date", str),
        command=_get(found, "command", str),
    )


def _get(found: dict[str, Any], key: str, kind: type[T]) -> T:
    if key not in found:
        raise NotAResult(f"it has no '{key}', which every result has")
    value = found[key]
    # JSON's true is an int to Python, and no seed.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise NotAResult(f"'{key}' must be of type {kind.__name__}, got {type(value).__name__}")
    return value


def _number(found: dict[str, Any], key: str) -> float:
    """A number; null stands for one that was not finite."""
    value = found.get(key, _MISSING)
    if value is None:
        return NAN
    if value is _MISSING or isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAResult(f"'{key}' must be a number, got {'nothing' if value is _MISSING else type(value).__name__}")
    try:
        return float(value)
    except OverflowError as error:
        raise NotAResult(f"'{key}' is larger than any number here") from error


_MISSING: Any = object()


def _share(found: dict[str, Any]) -> float | None:
    return None if found.get("updates") is None else _number(found, "updates")


def _epoch(point: dict[str, Any]) -> Epoch:
    loss, test, seconds = (_number(point, key) for key in ("loss", "test", "seconds"))
    return Epoch(_get(point, "epoch", int), loss, test, seconds, _share(point))


def _gates(gates: Any) -> tuple[Gates, Gates] | tuple[None, None]:
    """A layer's gates before and after training; None where a result has none, or where training drove them out of all bounds."""
    if not gates:
        return None, None
    try:
        before, after = (Gates(*(_values(gates[field][when]) for field in Gates._fields)) for when in ("before", "after"))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NotAResult("'gates' must hold numbers before and after for period, shift and ratio_on") from error
    values = [*before, *after]
    if len({len(value) for value in values}) != 1:
        raise NotAResult("'gates' must have as many periods as shifts and ratios")
    finite = before.period and all(math.isfinite(number) for value in values for number in value)
    return (before, after) if finite else (None, None)


def _values(values: Any) -> tuple[float, ...]:
    return tuple(NAN if value is None else float(value) for value in values)
