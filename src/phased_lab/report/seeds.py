"""Groups of records: runs that differ only in the seed, with their mean and spread."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from phased_lab.runs import discovery
from phased_lab.runs.descriptor import Claim, Experiment, Kind
from phased_lab.runs.record import Record, flat
from phased_lab.runs.run import SCALES

# Settings of networks with time gates under one condition, below which accuracy against updates is not drawn.
FEWEST_SETTINGS = 3


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
    def kind(self) -> Kind:
        """The kind of its network."""
        return self.experiment.kind(self.model)

    @property
    def label(self) -> str:
        """Model and variant."""
        return ", ".join(filter(None, (self.kind.label, self.variant)))

    @property
    def section(self) -> tuple[str, str, str]:
        """Groups of one section are compared in one figure: one experiment, scale and version of the data."""
        return self.experiment.name, self.scale, self.data

    @property
    def key(self) -> str:
        """The section's name in file names and URLs: frequency, adding-quick."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(part for part in self.section if part not in {"paper", ""}))

    @property
    def data_words(self) -> str:
        """The label of the version of the data."""
        return self.experiment.data.get(self.data, self.data)

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
    def updates(self) -> Spread:
        """The share of open units among all units x steps on the test set, or 1 for a model without time gates."""
        return spread(1.0 if record.updates is None else record.updates for record in self.records)

    @property
    def claim(self) -> Claim | None:
        """The paper's number."""
        return self.experiment.claims.get((self.model, self.condition))

    def curve(self, field: str = "test") -> list[tuple[int, Spread]]:
        """Return one field of the learning curve over seeds."""
        epochs = zip(*(record.curve for record in self.records), strict=False)
        return [(points[0].epoch, spread(getattr(point, field) for point in points)) for points in epochs]


place_of = attrgetter("experiment", "study", "scale", "data", "model", "condition", "variant")
"""The fields of a record that identify its group."""


def groups(records: Iterable[Record]) -> list[Group]:
    """Return groups of records, ordered by experiment, condition and model. Only the newest record of a repeated run counts."""
    newest = {(place_of(record), record.seed): record for record in sorted(records, key=lambda record: record.date)}
    found = groupby((newest[key] for key in sorted(newest)), key=place_of)
    return sorted((Group(discovery.experiment(name), tuple(runs), *place) for (name, *place), runs in found), key=_order)


def _order(group: Group) -> tuple[Any, ...]:
    about = group.experiment
    return (
        _place(about.name, list(discovery.experiments())),
        _place(group.scale, SCALES),
        _place(group.data, list(about.data)),
        _place(group.condition, list(about.conditions)),
        _place(group.model, [kind.name for kind in about.models]),
        group.variant,
        _place(group.study, [study.name for study in about.studies]),
    )


def _place(name: str, known: Sequence[str]) -> tuple[int, str]:
    """A sort key: known names first, in their order, then the others by name."""
    return [*known, name].index(name), name


def sections(of: Sequence[Group]) -> list[list[Group]]:
    """Divide the groups, in their order, by section."""
    return [list(section) for _, section in groupby(of, key=attrgetter("section"))]


def main(section: Sequence[Group]) -> list[Group]:
    """The groups in the paper's figure: of the study with the name of the experiment, or of all studies if it has no results.

    Each model is limited to the variants with results under the most conditions, so that a figure can compare conditions.
    """
    own = [group for group in section if group.study == group.experiment.name] or section
    covered = Counter((model, variant) for model, variant, _ in {(each.model, each.variant, each.condition) for each in own})
    most = {model: max(count for kind, count in covered.items() if kind[0] == model) for model, _ in covered}
    return [group for group in own if covered[group.model, group.variant] == most[group.model]]


def learning(section: Sequence[Group]) -> list[Group]:
    """Return the groups of the paper's figure and of `Experiment.curves_of`, for charts of learning curves."""
    figure = main(section)
    return [group for group in section if group in figure or group.study in group.experiment.curves_of]


def compared(section: Sequence[Group]) -> list[Group]:
    """Return the groups of a section for the chart of accuracy against updates, or [] for too few settings.

    They are the recurrent networks in the studies of `Experiment.updates_of`, under the condition with the most settings of
    gates; the last of several.
    """
    about = section[0].experiment
    if "updates" not in about.charts or about.metric != "accuracy":
        return []
    studies = about.updates_of
    shown = [group for group in section if group.kind.recurrent and (not studies or group.study in studies)]
    settings = Counter(group.condition for group in shown if group.gated)
    most = max(settings.values(), default=0)
    if most < FEWEST_SETTINGS:
        return []
    condition = [name for name, count in settings.items() if count == most][-1]
    return [group for group in shown if group.condition == condition]
