"""The record of a run, one line of JSON: settings, learning curve, further tests, gates, versions and machine."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, NamedTuple

from phased.experiments import fields as json_fields
from phased.experiments.fields import Malformed
from phased.learn.store import Epoch, Score

SCHEMA = 3
"""The version of the format of records. Schema 1 has no study, variant, data and schema. Every older schema can be read."""

WITHOUT_EVALUATIONS = 2
"""The schema of records without evaluations, which a version of phased that knows only schema 2 can read too."""

LAST = 5  # a result is the mean over this many epochs: one test has 500 sequences, which gives an accuracy to half a percent only

# Bounds of the values in a record, far above those of any real run.
MOST_EPOCHS = 10**9
MOST_UNITS = 10_000
MOST_SEQUENCES = 10**12
LARGEST_SEED = 2**64


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
    study: str = ""  # "" (schema 1) becomes the name of the experiment
    variant: str = ""
    data: str = ""
    evaluations: Mapping[str, Score] = field(default_factory=dict)  # further tests of the trained network, by name
    schema: int = 0  # 0 becomes the schema that the record is written in

    def __post_init__(self) -> None:
        if not self.study:
            object.__setattr__(self, "study", self.experiment)
        if not self.schema:
            object.__setattr__(self, "schema", self.written_schema)

    @property
    def written_schema(self) -> int:
        """The oldest schema from 2 up that has all its fields."""
        return SCHEMA if self.evaluations else WITHOUT_EVALUATIONS

    @property
    def last(self) -> int:
        """The number of epochs whose mean is the result: one if the learning rate falls to 0 in the end."""
        return LAST if self.settings.get("schedule", "constant") == "constant" else 1

    @property
    def test(self) -> float:
        """The mean test metric of the last epochs; no epoch is selected by its result."""
        return _mean([epoch.test for epoch in self.curve[-self.last :]])

    @property
    def loss(self) -> float:
        """The mean training loss of the same epochs, with the leak."""
        return _mean([epoch.loss for epoch in self.curve[-self.last :]])

    @property
    def device(self) -> str:
        """The device: the accelerator, or the processor where there was none."""
        device = str(self.machine.get("device", "unknown"))
        return str(self.machine.get("processor", "CPU")) if device == "cpu" else device

    def line(self) -> str:
        """One line of JSON, in `written_schema`."""
        apart = ("before", "after", "evaluations")
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in apart}
        found |= {"schema": self.written_schema, "curve": [known(epoch) for epoch in self.curve]}
        if self.evaluations:
            found["evaluations"] = {name: known(score) for name, score in self.evaluations.items()}
        if self.before is not None and self.after is not None:
            sides = self.before._asdict(), self.after._asdict()
            found["gates"] = {name: {"before": list(sides[0][name]), "after": list(sides[1][name])} for name in Gates._fields}
        return json.dumps(finite(found), allow_nan=False, sort_keys=True) + "\n"


def known(point: Epoch | Score) -> dict[str, Any]:
    """The fields of a test's result, without those that are None by default and were not measured."""
    defaults = point._field_defaults
    return {name: value for name, value in point._asdict().items() if value is not None or name not in defaults}


def parse(line: bytes | str) -> Record:
    """The record in a line of JSON; `Malformed` if it is not one. Keys that an older schema lacks get their defaults."""
    found = json_fields.load(line)
    schema = json_fields.integer({"schema": 1} | found, "schema", 1, 10**9)
    if schema > SCHEMA:
        raise Malformed(f"'schema' must be at most {SCHEMA}, got {schema}: it was written by a newer version. Upgrade phased")
    before, after = _gates(found.get("gates"))
    required = ("experiment", "name", "model", "condition", "scale", "date", "command")
    text = {key: json_fields.text(found, key) for key in required}
    text |= {key: json_fields.text(found, key) for key in ("study", "variant", "data") if key in found}
    return Record(
        **text,
        schema=schema,
        seed=json_fields.integer(found, "seed", -LARGEST_SEED, LARGEST_SEED),
        settings=json_fields.nested(found, "settings"),
        curve=_curve(json_fields.get(found, "curve", list)),
        evaluations={name: _score(score) for name, score in json_fields.objects(found, "evaluations").items()},
        wall=json_fields.number(found, "wall"),
        updates=json_fields.share(found, "updates"),
        before=before,
        after=after,
        versions=json_fields.nested(found, "versions"),
        machine=json_fields.nested(found, "machine"),
    )


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Settings without nesting: {"gate": {"leak": 0}} becomes {"gate.leak": 0}."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def finite(value: Any) -> Any:
    """The value with None in place of every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _curve(points: list[Any]) -> tuple[Epoch, ...]:
    if not points or not all(isinstance(point, dict) for point in points):
        raise Malformed("'curve' must be a list of at least one epoch")
    curve = tuple(_epoch(point) for point in points)
    for one, following in pairwise(curve):
        if one.epoch >= following.epoch:
            raise Malformed(f"'epoch' must increase along 'curve', got {following.epoch} after {one.epoch}")
    return curve


def _epoch(point: dict[str, Any]) -> Epoch:
    loss, test, seconds = (json_fields.number(point, key) for key in ("loss", "test", "seconds"))
    epoch, updates = json_fields.integer(point, "epoch", 1, MOST_EPOCHS), json_fields.share(point, "updates")
    return Epoch(epoch, loss, test, seconds, updates, _optional(point, "test_loss"))


def _score(score: dict[str, Any]) -> Score:
    test, steps = (json_fields.number(score, key) for key in ("test", "steps"))
    sequences, updates = json_fields.integer(score, "sequences", 1, MOST_SEQUENCES), json_fields.share(score, "updates")
    return Score(test, sequences, steps, updates, _optional(score, "loss"), _optional(score, "whole"))


def _optional(point: dict[str, Any], key: str) -> float | None:
    return json_fields.number(point, key) if key in point else None


def _gates(gates: Any) -> tuple[Gates, Gates] | tuple[None, None]:
    """Gates before and after training; None where a record has none, or where a value is not finite or a period not positive."""
    if not gates:
        return None, None
    try:
        before, after = (
            Gates(*(json_fields.numbers(gates[field][when], "gates") for field in Gates._fields)) for when in ("before", "after")
        )
    except (KeyError, TypeError) as error:
        raise Malformed("'gates' must hold numbers before and after for period, shift and ratio_on") from error
    values = [*before, *after]
    if len({len(value) for value in values}) != 1:
        raise Malformed("'gates' must have as many periods as shifts and ratios")
    if len(before.period) > MOST_UNITS:
        raise Malformed(f"'gates' must be of at most {MOST_UNITS} units, got {len(before.period)}")
    all_finite = all(math.isfinite(number) for value in values for number in value)
    return (before, after) if all_finite and min([*before.period, *after.period], default=0.0) > 0 else (None, None)
