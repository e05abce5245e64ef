"""Groups of records: runs that differ only in the seed, with their mean and spread."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased_lab.runs import discovery
from phased_lab.runs.descriptor import Claim, Experiment
from phased_lab.runs.record import Gates, Record, flat
from phased_lab.runs.run import SCALES

Array = NDArray[np.float64]

# Settings of networks with time gates under one condition, below which accuracy against updates is not drawn.
FEWEST_SETTINGS = 3
LONGEST_SLUG = 80  # characters (file names may have 255)


class Spread(NamedTuple):
    """One number from several seeds, without the `lost` seeds with nan or infinity; nan without a seed."""

    values: tuple[float, ...]
    lost: int
    mean: float
    deviation: float | None  # of the sample (n - 1), or None with fewer than two seeds
    low: float
    high: float

    @property
    def n(self) -> int:
        """The number of seeds in the mean."""
        return len(self.values)


def spread(values: Iterable[float]) -> Spread:
    """Separate finite numbers from nan and infinities."""
    every = list(values)
    finite = tuple(value for value in every if math.isfinite(value))
    mean = float(np.mean(finite)) if finite else math.nan
    deviation = float(np.std(finite, ddof=1)) if len(finite) > 1 else None
    return Spread(finite, len(every) - len(finite), mean, deviation, min(finite, default=math.nan), max(finite, default=math.nan))


class Curve(NamedTuple):
    """A learning curve over seeds: mean, minimum and maximum at each epoch, each (epochs,)."""

    epoch: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed. `variant` distinguishes them from other runs of the model."""

    experiment: Experiment
    records: tuple[Record, ...]
    study: str
    scale: str
    data: str
    model: str
    condition: str
    variant: str

    @property
    def label(self) -> str:
        """Model and variant."""
        return ", ".join(filter(None, (self.experiment.kind(self.model).label, self.variant)))

    @property
    def section(self) -> tuple[str, str, str]:
        """Groups of one section are compared in one figure: one experiment, scale and version of the data."""
        return self.experiment.name, self.scale, self.data

    @property
    def key(self) -> str:
        """The section's name in file names and URLs: frequency, adding-quick."""
        return slug("-".join(part for part in self.section if part not in {"paper", ""}))

    @property
    def data_words(self) -> str:
        """The label of the version of the data."""
        return self.experiment.data.get(self.data, self.data)

    @property
    def seeds(self) -> list[int]:
        """The seeds of its records."""
        return [record.seed for record in self.records]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that its runs share."""
        return {key: value for key, value in flat(self.records[0].settings).items() if key.rpartition(".")[2] != "seed"}

    @property
    def gated(self) -> bool:
        """Whether the network uses time gates."""
        return any(record.updates is not None for record in self.records)

    @property
    def test(self) -> Spread:
        """The test metric after training (`Record.test`)."""
        return spread(record.test for record in self.records)

    @property
    def loss(self) -> Spread:
        """The training loss at the end of training (`Record.loss`)."""
        return spread(record.loss for record in self.records)

    @property
    def updates(self) -> Spread:
        """The share of open units among all units x steps on the test set, or 1 for a model without time gates."""
        return spread(1.0 if record.updates is None else record.updates for record in self.records)

    @property
    def updates_words(self) -> str:
        """The mean of `updates` as text, or "-" for a network without steps."""
        if not self.experiment.kind(self.model).recurrent:
            return "-"
        return "every step" if self.records[0].updates is None else f"{100 * self.updates.mean:.1f} %"

    @property
    def claim(self) -> Claim | None:
        """The paper's number."""
        return self.experiment.claims.get((self.model, self.condition))

    @property
    def has_test_loss(self) -> bool:
        """Whether all epochs of its runs have a test loss."""
        return all(point.test_loss is not None for record in self.records for point in record.curve)

    def curve(self, field: str = "test") -> Curve:
        """One field of the learning curve at the epochs that all seeds have."""
        runs = [{point.epoch: getattr(point, field) for point in record.curve} for record in self.records]
        epochs = sorted(set.intersection(*(set(run) for run in runs)))
        points = [spread(run[epoch] for run in runs) for epoch in epochs]
        columns = ([point.mean for point in points], [point.low for point in points], [point.high for point in points])
        return Curve(np.array(epochs, dtype=float), *(np.array(column, dtype=float) for column in columns))


place_of = attrgetter("experiment", "study", "scale", "data", "model", "condition", "variant")
"""The fields of a record that identify its group."""


def groups(records: Iterable[Record]) -> list[Group]:
    """Return groups of records, ordered by experiment, condition and model. Only the newest record of a repeated run counts."""
    newest = {(place_of(record), record.seed): record for record in sorted(records, key=lambda record: record.date)}
    found = []
    for (name, *place), runs in groupby((newest[key] for key in sorted(newest)), key=place_of):
        about = discovery.experiment(name)
        found.append(Group(about, tuple(with_gates_of(about, record) for record in runs), *place))
    return sorted(found, key=_order)


def with_gates_of(about: Experiment, record: Record) -> Record:
    """The record with the gates of those units that figures show."""
    units = about.units(record)
    before, after = (gates and Gates(*(values[units] for values in gates)) for gates in (record.before, record.after))
    return replace(record, before=before, after=after)


def _order(group: Group) -> tuple[Any, ...]:
    about = group.experiment
    return (
        _place(about.name, list(discovery.experiments())),
        _place(group.scale, SCALES),
        _place(group.data, list(about.data)),
        _place(group.condition, list(about.conditions)),
        _place(group.model, [kind.name for kind in about.models]),
        natural(group.variant),
        _place(group.study, [study.name for study in about.studies]),
    )


def _place(name: str, known: Sequence[str]) -> tuple[int, str]:
    """A sort key: known names first, in their order, then the others by name."""
    return (known.index(name), "") if name in known else (len(known), name)


def natural(text: str) -> list[tuple[int, float, str]]:
    """Return a sort key that compares numbers inside a text by value: 'r_on 0.05' before 'r_on 0.1'."""
    # The split has numbers at odd indices. str.isdigit would not do: '²' is a digit to Python, and float('²') fails.
    parts = enumerate(re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", text))
    return [(0, float(part), "") if place % 2 else (1, 0.0, part) for place, part in parts if part]


def main(of: Sequence[Group]) -> list[Group]:
    """The groups in the paper's figure: in each section the study with the name of its experiment, or all if it has no results.

    Each model is limited to the variants with results under the most conditions, so that a figure can compare conditions.
    """
    with_own = {group.section for group in of if group.study == group.experiment.name}
    of = [group for group in of if group.study == group.experiment.name or group.section not in with_own]
    covered = Counter(kind for kind, _ in {(_kind(group), group.condition) for group in of})
    most: dict[tuple[str, ...], int] = {}
    for kind, count in covered.items():
        most[kind[:-1]] = max(most.get(kind[:-1], 0), count)
    return [group for group in of if covered[_kind(group)] == most[_kind(group)[:-1]]]


def learning(of: Sequence[Group]) -> list[Group]:
    """Return the groups of the paper's figure and of `Experiment.curves_of`, for charts of learning curves."""
    figure = main(of)
    return [group for group in of if group in figure or group.study in group.experiment.curves_of]


def _kind(group: Group) -> tuple[str, ...]:
    return *group.section, group.model, group.variant


def compared(of: Sequence[Group]) -> list[Group]:
    """Return the groups of one section for the chart of accuracy against updates, or [] for too few settings.

    They are the recurrent networks in the studies of `Experiment.updates_of`, under the condition with the most settings of
    gates; the last of several.
    """
    if not of or "updates" not in of[0].experiment.charts or of[0].experiment.metric != "accuracy":
        return []
    studies = of[0].experiment.updates_of
    of = [group for group in of if group.experiment.kind(group.model).recurrent and (not studies or group.study in studies)]
    settings = Counter(group.condition for group in of if group.gated)
    most = max(settings.values(), default=0)
    if most < FEWEST_SETTINGS:
        return []
    condition = [name for name, count in settings.items() if count == most][-1]
    return [group for group in of if group.condition == condition]


def sections(of: Sequence[Group]) -> list[list[Group]]:
    """Divide the groups, in their order, by section."""
    return [list(section) for _, section in groupby(of, key=attrgetter("section"))]


def slug(name: str) -> str:
    """A name for files and URLs: at most LONGEST_SLUG letters, digits, points and dashes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:LONGEST_SLUG].rstrip("-.") or "unnamed"
