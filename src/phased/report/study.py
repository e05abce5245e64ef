"""From results to numbers: the same run under several seeds is one group, with a mean and a spread."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from phased.report import names, paper
from phased.report.results import Result

T = TypeVar("T")
Array = NDArray[np.float64]
TASK = "task."  # where settings say what the data are
Place = tuple[str, str, str, str]  # experiment, scale, model, condition

# Settings that say where or for which line of a table a run was made; they do not make it another kind of run.
NOT_A_VARIANT = {"seed", "seeds", "name", "experiment", "model", "condition", "scale", "device", "workers", "jobs", "threads"}

# Of a learning curve: more than a figure can show, and few enough for a page.
MOST_POINTS = 2000

# The page's own sections and tables, which no study may be named like.
NOT_A_KEY = {"charts", "cost", "leak", "missing", "runs", "skipped", "specs"}

# Of the Phased LSTM under one condition: fewer are no comparison of accuracy against updates.
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
    """Runs that differ in nothing but their seed.

    `variant` says what sets them apart from the model's other groups, `task` which of several versions of the data they saw.
    """

    experiment: str
    scale: str
    model: str
    condition: str
    task: str
    variant: str
    results: tuple[Result, ...]

    @property
    def label(self) -> str:
        """Model and variant."""
        return ", ".join(filter(None, (names.model(self.model), self.variant)))

    @property
    def study(self) -> tuple[str, str, str]:
        """What may be compared in one figure: one experiment at one scale on one version of the data."""
        return self.experiment, self.scale, self.task

    @property
    def key(self) -> str:
        """The study's name in files and addresses, before `keys` sets equal ones apart: frequency, adding-quick."""
        law = self.settings.get("task.periods")
        data = self.task if law is None else law
        return names.slug("-".join(part for part in (self.experiment, self.scale, str(data)) if part not in {"paper", ""}))

    @property
    def seeds(self) -> list[int]:
        """Which seeds it has."""
        return [result.seed for result in self.results]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings its runs share."""
        return {key: value for key, value in flat(self.results[0].settings).items() if key.rpartition(".")[2] != "seed"}

    @property
    def epochs(self) -> int:
        """How long its runs trained."""
        return max(result.curve[-1].epoch for result in self.results)

    @property
    def test(self) -> Spread:
        """The test metric at the end, as `Result.test` has it."""
        return spread(result.test for result in self.results)

    @property
    def loss(self) -> Spread:
        """The training loss at the end, as `Result.loss` has it."""
        return spread(result.loss for result in self.results)

    @property
    def updates(self) -> Spread:
        """The part of its units' steps that are updates, on the test set; all of them in a model without time gates."""
        return spread(1.0 if result.updates is None else result.updates for result in self.results)

    @property
    def claim(self) -> paper.Claim | None:
        """What the paper has for it."""
        return paper.claim(self.experiment, self.model, self.condition)

    def curve(self, field: str = "test") -> Curve:
        """One field of the learning curve at the epochs all its seeds have; of very many, evenly spread ones."""
        runs = [{point.epoch: getattr(point, field) for point in result.curve} for result in self.results]
        epochs = evenly(sorted(set.intersection(*(set(run) for run in runs))), MOST_POINTS)
        points = [spread(run[epoch] for run in runs) for epoch in epochs]
        columns = ([point.mean for point in points], [point.low for point in points], [point.high for point in points])
        return Curve(np.array(epochs, dtype=float), *(np.array(column, dtype=float) for column in columns))


def groups(results: Iterable[Result]) -> list[Group]:
    """Results gathered over seeds, in the order of the paper's figures, conditions and models; each run is counted once."""
    return gather(newest(results))


def newest(results: Iterable[Result]) -> list[Result]:
    """Each run once: of several results that differ in nothing but place and time, the one of the latest date."""
    kept: dict[tuple[str, ...], Result] = {}
    for result in results:
        run = (*_place_of(result), str(result.seed), frozen(_variant(result)))
        if run not in kept or result.date >= kept[run].date:
            kept[run] = result
    return list(kept.values())


def gather(runs: Sequence[Result]) -> list[Group]:
    """Runs in groups, named by the settings in which runs of one model under one condition differ."""
    seen: defaultdict[Place, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    everywhere: defaultdict[Place, set[str]] = defaultdict(set)
    for run in runs:
        everywhere[_place_of(run)] |= _variant(run).keys()
    for run in runs:
        variant = _variant(run)
        for key in everywhere[_place_of(run)]:
            seen[_place_of(run)][key].add(frozen(variant.get(key)))
    telling: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for place, keys in seen.items():
        for key in (key for key, values in keys.items() if len(values) > 1):
            # All models see the same data: a version of them is one for the whole experiment.
            telling[place[:2] if key.startswith(TASK) else place[:3]].add(key)

    gathered: defaultdict[tuple[Place, str, str, str], list[Result]] = defaultdict(list)
    for run in runs:
        place, variant = _place_of(run), _variant(run)
        task, told = ({key: variant.get(key) for key in telling[part]} for part in (place[:2], place[:3]))
        gathered[place, names.task(task), names.variant(told), frozen([task, told])].append(run)
    found = [
        Group(*place, task=task, variant=variant, results=tuple(sorted(members, key=lambda run: run.seed)))
        for (place, task, variant, _), members in gathered.items()
    ]
    return sorted(found, key=_order)


def _place_of(run: Result) -> Place:
    return run.experiment, run.scale, run.model, run.condition


def _variant(run: Result) -> dict[str, Any]:
    """The settings that could set a run apart from others of its model and condition."""
    return {key: value for key, value in flat(run.settings).items() if key.rpartition(".")[2] not in NOT_A_VARIANT}


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
    figure = paper.figure(group.experiment)
    return (
        _place(group.experiment, [figure.experiment for figure in paper.FIGURES]),
        _place(group.scale, ["paper", "quick"]),
        _place(group.task, list(names.WAVES.values())),
        _place(group.condition, figure.conditions if figure else ()),
        _place(group.model, list(names.MODELS)),
        natural(group.variant),
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
    """Of each model, the variants with results under the most conditions: those a figure over all conditions can compare.

    Where a model has its usual settings, studies of other ones are left out.
    """
    with_usual = {_kind(group)[:-1] for group in of if is_usual(group)}
    of = [group for group in of if is_usual(group) or _kind(group)[:-1] not in with_usual]
    covered: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for group in of:
        covered[_kind(group)].add(group.condition)
    most: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for kind, conditions in covered.items():
        most[kind[:-1]] = max(most[kind[:-1]], len(conditions))
    return renamed(group for group in of if len(covered[_kind(group)]) == most[_kind(group)[:-1]])


def is_usual(group: Group) -> bool:
    """Whether all is as in the figures that is not about how often units work."""
    return all(group.settings.get(key, usual) == usual for key, usual in names.USUAL.items())


def _kind(group: Group) -> tuple[str, ...]:
    return *group.study, group.model, group.variant


def renamed(of: Iterable[Group]) -> list[Group]:
    """The same groups, named by what sets them apart from each other and no longer from all the rest."""
    return gather([result for group in of for result in group.results])


def compared(of: Sequence[Group]) -> list[Group]:
    """The groups of one experiment under the condition with the most settings of the Phased LSTM; of equals the last.

    Studies of something else than how often units work are left out.
    """
    of = [group for group in of if is_usual(group)]
    settings = Counter(group.condition for group in of if group.model == "phased")
    if not settings:
        return []
    most = max(settings.values())
    condition = [name for name, count in settings.items() if count == most][-1]
    return renamed(group for group in of if group.condition == condition)


def studies(of: Sequence[Group]) -> list[list[Group]]:
    """Groups that may be compared with each other, study by study."""
    found: dict[tuple[str, str, str], list[Group]] = {}
    for group in of:
        found.setdefault(group.study, []).append(group)
    return list(found.values())


def keys(of: Sequence[Sequence[Group]]) -> list[str]:
    """The name of each study in files and addresses; names that differ in nothing or in case only get a number."""
    taken = set(NOT_A_KEY)
    found = []
    for study in of:
        first = study[0].key
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
