"""The record of a run, one line of JSON: settings, learning curve, further tests, gates, versions and machine."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from phased.learn.store import Epoch, Score

SCHEMA = 3
"""The version of the format of records. Records without evaluations are written in schema 2."""

LAST = 5  # a result is the mean over this many epochs: one test has 500 sequences, which gives an accuracy to half a percent only

NAN = float("nan")
EXACT = ("epoch", "sequences", "updates")  # numbers of epochs and scores that are read as they are
T = TypeVar("T", Epoch, Score)


class Gates(NamedTuple):
    """The gates of a network, one value per unit, ordered by layer and unit."""

    period: tuple[float, ...]
    shift: tuple[float, ...]
    ratio_on: tuple[float, ...]


@dataclass(frozen=True)
class Record:
    """The result of one run. Numbers that were not finite are nan, and null in JSON.

    A run belongs to an experiment and one of its studies, has a condition, a scale and a version of the data, and trains a model.
    `variant` is a label that distinguishes it from other runs of that model. Runs that differ only in the seed share all these.
    """

    experiment: str
    name: str
    model: str
    condition: str
    scale: str
    seed: int
    settings: Mapping[str, Any]
    curve: tuple[Epoch, ...]
    wall: float  # seconds
    updates: float | None  # share of open units among all units x steps, on the test set; None without time gates
    versions: Mapping[str, Any]
    machine: Mapping[str, Any]
    date: str
    command: str
    before: Gates | None = None  # before training
    after: Gates | None = None  # after training
    study: str = ""  # "" becomes the name of the experiment
    variant: str = ""
    data: str = ""
    evaluations: Mapping[str, Score] = field(default_factory=dict)  # further tests of the trained network, by name

    def __post_init__(self) -> None:
        if not self.study:
            object.__setattr__(self, "study", self.experiment)

    @property
    def last(self) -> int:
        """The number of epochs whose mean is the result: one if the learning rate falls to 0 in the end."""
        return LAST if self.settings.get("schedule", "constant") == "constant" else 1

    @property
    def test(self) -> float:
        """The mean test metric of the last epochs; no epoch is selected by its result."""
        return fmean(epoch.test for epoch in self.curve[-self.last :])

    @property
    def loss(self) -> float:
        """The mean training loss of the same epochs, with the leak."""
        return fmean(epoch.loss for epoch in self.curve[-self.last :])

    @property
    def device(self) -> str:
        """The device: the accelerator, or the processor where there was none."""
        device = str(self.machine.get("device", "unknown"))
        return str(self.machine.get("processor", "CPU")) if device == "cpu" else device

    def line(self) -> str:
        """One line of JSON, in the oldest schema that has all its fields."""
        apart = ("before", "after", "evaluations")
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in apart}
        found |= {"schema": SCHEMA if self.evaluations else SCHEMA - 1, "curve": [known(epoch) for epoch in self.curve]}
        if self.evaluations:
            found["evaluations"] = {name: known(score) for name, score in self.evaluations.items()}
        if self.before is not None and self.after is not None:
            sides = self.before._asdict(), self.after._asdict()
            found["gates"] = {name: {"before": list(sides[0][name]), "after": list(sides[1][name])} for name in Gates._fields}
        finite = json.loads(json.dumps(found), parse_constant=lambda _: None)  # null for numbers that are not finite
        return json.dumps(finite, sort_keys=True) + "\n"


def known(point: Epoch | Score) -> dict[str, Any]:
    """The fields of a test's result, without those that are None by default and were not measured."""
    defaults = point._field_defaults
    return {name: value for name, value in point._asdict().items() if value is not None or name not in defaults}


def parse(line: bytes | str) -> Record:
    """Return the record in a line of JSON. Unknown keys are ignored, and missing ones have their defaults.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the line is no record.
    """
    found = json.loads(line)
    if found["schema"] > SCHEMA:
        raise ValueError(f"schema must be at most {SCHEMA}, got {found['schema']} of a newer version. Upgrade phased.")
    before, after = _gates(found.get("gates"))
    found |= {
        "wall": _number(found["wall"]),
        "curve": tuple(_point(Epoch, point) for point in found["curve"]),
        "evaluations": {name: _point(Score, score) for name, score in found.get("evaluations", {}).items()},
        "before": before,
        "after": after,
    }
    return Record(**{each.name: found[each.name] for each in fields(Record) if each.name in found})


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Settings without nesting: {"gate": {"leak": 0}} becomes {"gate.leak": 0}."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _number(value: float | None) -> float:
    """The number; nan for null, which stands for one that was not finite."""
    return NAN if value is None or not math.isfinite(value) else float(value)


def _point(kind: type[T], found: Mapping[str, Any]) -> T:
    """An epoch or a score. Numbers that are null were not finite, but for the share of updates, which not all networks have."""
    present: dict[str, Any] = {name: found[name] for name in kind._fields if name in found or name not in kind._field_defaults}
    return kind(**present | {name: _number(value) for name, value in present.items() if name not in EXACT})


def _gates(gates: Any) -> tuple[Gates, Gates] | tuple[None, None]:
    """Gates before and after training; None where a record has none, or where training drove a value out of all bounds."""
    if not gates:
        return None, None
    before, after = (Gates(*(tuple(gates[name][when]) for name in Gates._fields)) for when in ("before", "after"))
    if any(number is None for value in (*before, *after) for number in value) or min(*before.period, *after.period) <= 0:
        return None, None
    return before, after
