"""From records to numbers: the same run under several seeds is one group, with a mean and a spread."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from phased.experiments import catalogue
from phased.experiments.descriptor import Claim, Experiment
from phased.experiments.record import Record
from phased.experiments.run import SCALES
from phased.report import names

T = TypeVar("T")
Array = NDArray[np.float64]

# Settings that say where a run was made, or repeat what its record says elsewhere.
NOT_COMPARED = {"seed", "seeds", "name", "experiment", "model", "condition", "scale", "device", "workers", "jobs", "threads"}

# Of a learning curve: more than a figure can show, and few enough for a page.
MOST_POINTS = 2000

# The page's own sections and tables: no section of results may have such a name.
NOT_A_KEY = {"charts", "cost", "leak", "missing", "runs", "skipped", "specs"}

# Of networks with time gates under one condition: fewer are no comparison of accuracy against updates.
FEWEST_SETTINGS = 3


@dataclass(frozen=True)
class Spread:
    """One number from several seeds. A seed whose number is not finite is counted as lost, and is in no mean."""

    values: tuple[float, ...]
    lost: int = 0

    @property
    def n(self) -> int:
        """The seeds in the mean."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Their mean; nan without a seed."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation (n - 1); None where one seed has no spread."""
        return float(np.std(self.values, ddof=1)) if self.n > 1 else None

    @property
    def low(self) -> float:
        """The least of them."""
        return min(self.values, default=math.nan)

    @property
    def high(self) -> float:
        """The greatest of them."""
        return max(self.values, default=math.nan)


def spread(values: Iterable[float]) -> Spread:
    """The spread of these numbers."""
    every = list(values)
    finite = tuple(value for value in every if math.isfinite(value))
    return Spread(finite, lost=len(every) - len(finite))


class Curve(NamedTuple):
    """A learning curve over seeds: at each epoch the mean, the least and the greatest, each (epochs,)."""

    epoch: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed; `variant`, from their records, sets them apart from others of the model."""

    experiment: Experiment
    study: str
    scale: str
    data: str
    model: str
    condition: str
    variant: str
    records: tuple[Record, ...]

    @property
    def label(self) -> str:
        """Model and variant."""
        return ", ".join(filter(None, (self.experiment.label(self.model), self.variant)))

    @property
    def section(self) -> tuple[str, str, str]:
        """What may be compared in one figure: one experiment at one scale on one version of the data."""
        return self.experiment.name, self.scale, self.data

    @property
    def key(self) -> str:
        """The section's name in files and addresses, before `keys` sets equal ones apart: frequency, adding-quick."""
        return names.slug("-".join(part for part in self.section if part not in {"paper", ""}))

    @property
    def data_words(self) -> str:
        """Which version of the data, in words."""
        return self.experiment.data.get(self.data, self.data)

    @property
    def seeds(self) -> list[int]:
        """Which seeds it has."""
        return [record.seed for record in self.records]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings its runs share."""
        return {key: value for key, value in flat(self.records[0].settings).items() if key.rpartition(".")[2] != "seed"}

    @property
    def gated(self) -> bool:
        """Whether its network has time gates."""
        return any(record.updates is not None for record in self.records)

    @property
    def epochs(self) -> int:
        """How long its runs trained."""
        return max(record.curve[-1].epoch for record in self.records)

    @property
    def test(self) -> Spread:
        """The test metric at the end, as `Record.test` has it."""
        return spread(record.test for record in self.records)

    @property
    def loss(self) -> Spread:
        """The training loss at the end, as `Record.loss` has it."""
        return spread(record.loss for record in self.records)

    @property
    def updates(self) -> Spread:
        """The part of its units' steps that are updates, on the test set; all of them in a model without time gates."""
        return spread(1.0 if record.updates is None else record.updates for record in self.records)

    @property
    def claim(self) -> Claim | None:
        """What the paper has for it."""
        return self.experiment.claims.get((self.model, self.condition))

    def curve(self, field: str = "test") -> Curve:
        """One field of the learning curve at the epochs all its seeds have; of very many, evenly spread ones."""
        runs = [{point.epoch: getattr(point, field) for point in record.curve} for record in self.records]
        epochs = evenly(sorted(set.intersection(*(set(run) for run in runs))), MOST_POINTS)
        points = [spread(run[epoch] for run in runs) for epoch in epochs]
        columns = ([point.mean for point in points], [point.low for point in points], [point.high for point in points])
        return Curve(np.array(epochs, dtype=float), *(np.array(column, dtype=float) for column in columns))


GroupKey = tuple[str, str, str, str, str, str, str]


def place_of(record: Record) -> GroupKey:
    """All that a record says of the group it belongs to."""
    return record.experiment, record.study, record.scale, record.data, record.model, record.condition, record.variant


def groups(records: Iterable[Record]) -> list[Group]:
    """Records gathered over seeds, in the order of experiments, conditions and models; each run is counted once."""
    return gather(list(records), newest)


def gather(records: Sequence[Record], of_a_seed: Callable[[Sequence[Record]], list[Record]] = list) -> list[Group]:
    """Records in groups, as they say themselves where they belong; `of_a_seed` picks from those of one group and seed."""
    places: defaultdict[GroupKey, list[Record]] = defaultdict(list)
    for record in records:
        places[place_of(record)].append(record)
    found = []
    for (experiment, study, scale, data, model, condition, variant), members in places.items():
        about = catalogue.experiment(experiment)
        for words, same in apart(members):
            seeds: defaultdict[int, list[Record]] = defaultdict(list)
            for record in same:
                seeds[record.seed].append(record)
            picked = tuple(record for seed in sorted(seeds) for record in of_a_seed(seeds[seed]))
            label = ", ".join(filter(None, (variant, words)))
            found.append(Group(about, study, scale, data, model, condition, label, picked))
    return sorted(found, key=_order)


def newest(records: Sequence[Record]) -> list[Record]:
    """Of several records of one run, the one of the latest date; of equals the last."""
    return [max(enumerate(records), key=lambda numbered: (numbered[1].date, numbered[0]))[1]]


def apart(members: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Records of one place by their settings, with what is different in words.

    Normally all are alike, and there is nothing to say. Files of schema 1 have no variant, and a user may have changed settings
    without a name for it: no mean is taken over such runs. A setting that some do not have is new, and separates none by that.
    """
    settings = [_compared_settings(record) for record in members]
    values_of: defaultdict[str, set[str]] = defaultdict(set)
    for one in settings:
        for key, value in one.items():
            values_of[key].add(frozen(value))
    different = sorted(key for key, values in values_of.items() if len(values) > 1)
    alike: defaultdict[str, list[Record]] = defaultdict(list)
    words: dict[str, str] = {}
    for record, one in zip(members, settings, strict=True):
        values = {key: one.get(key) for key in different}
        alike[frozen(values)].append(record)
        words[frozen(values)] = names.settings(values)
    return [(words[values], same) for values, same in alike.items()]


def _compared_settings(record: Record) -> dict[str, Any]:
    """The settings in which runs of one group are alike."""
    return {key: value for key, value in flat(record.settings).items() if key.rpartition(".")[2] not in NOT_COMPARED}


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Settings without nesting: {"gate": {"leak": 0}} is {"gate.leak": 0}."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def frozen(value: Any) -> str:
    """A value as text that is equal where values are: 0 is 0.0."""

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            return {str(key): plain(inner) for key, inner in part.items()}
        if isinstance(part, list | tuple):
            return [plain(inner) for inner in part]
        return float(part) if isinstance(part, int) and not isinstance(part, bool) else part

    return json.dumps(plain(value), sort_keys=True, default=str)


def _order(group: Group) -> tuple[Any, ...]:
    about = group.experiment
    return (
        _place(about.name, list(catalogue.experiments())),
        _place(group.scale, SCALES),
        _place(group.data, list(about.data)),
        _place(group.condition, list(about.conditions)),
        _place(group.model, [kind.name for kind in about.models]),
        natural(group.variant),
        _place(group.study, [study.name for study in about.studies]),
    )


def _place(name: str, known: Sequence[str]) -> tuple[int, str]:
    """What is known comes first, in its order; the rest by name."""
    return (known.index(name), "") if name in known else (len(known), name)


def natural(text: str) -> list[tuple[int, float, str]]:
    """A key that sorts 'leak 0', 'leak 0.001', 'leak 0.01' by their numbers."""
    # The split has numbers at odd places. A part's first letter would not do: '²' is a digit to Python, and no number.
    parts = enumerate(re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", text))
    return [(0, float(part), "") if place % 2 else (1, 0.0, part) for place, part in parts if part]


def lowest(of: Iterable[Group]) -> float:
    """The least test metric at any epoch of any seed; nan if none is finite."""
    return min((float(low) for group in of for low in group.curve().low if math.isfinite(low)), default=math.nan)


def main(of: Sequence[Group]) -> list[Group]:
    """What the paper's figure shows: of each section the study named like its experiment, or all where there is none of it.

    Of each model, the variants with results under the most conditions: those a figure over all conditions can compare.
    """
    with_own = {group.section for group in of if group.study == group.experiment.name}
    of = [group for group in of if group.study == group.experiment.name or group.section not in with_own]
    covered: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for group in of:
        covered[_kind(group)].add(group.condition)
    most: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for kind, conditions in covered.items():
        most[kind[:-1]] = max(most[kind[:-1]], len(conditions))
    return [group for group in of if len(covered[_kind(group)]) == most[_kind(group)[:-1]]]


def _kind(group: Group) -> tuple[str, ...]:
    return *group.section, group.model, group.variant


def compared(of: Sequence[Group]) -> list[Group]:
    """The groups of one section in the chart of accuracy against updates; none if there are too few.

    Those of the studies that the descriptor names, under the condition with the most settings of gates; of equals the last.
    """
    if not of or "updates" not in of[0].experiment.charts or of[0].experiment.metric != "accuracy":
        return []
    studies = of[0].experiment.updates_of
    of = [group for group in of if not studies or group.study in studies]
    settings = Counter(group.condition for group in of if group.gated)
    most = max(settings.values(), default=0)
    if most < FEWEST_SETTINGS:
        return []
    condition = [name for name, count in settings.items() if count == most][-1]
    return [group for group in of if group.condition == condition]


def sections(of: Sequence[Group]) -> list[list[Group]]:
    """Groups that may be compared with each other, section by section."""
    found: dict[tuple[str, str, str], list[Group]] = {}
    for group in of:
        found.setdefault(group.section, []).append(group)
    return list(found.values())


def keys(of: Sequence[Sequence[Group]]) -> list[str]:
    """The name of each section in files and addresses; names that differ in nothing or in case only get a number."""
    taken = set(NOT_A_KEY)
    found = []
    for section in of:
        first = section[0].key
        numbered = (f"{first}-{number}" for number in count(2))
        key = next(key for key in chain([first], numbered) if key.casefold() not in taken)
        taken.add(key.casefold())
        found.append(key)
    return found


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, evenly spread, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[place] for place in np.linspace(0, len(items) - 1, most).round().astype(int)]
