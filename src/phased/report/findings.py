"""What the report says beside the figures: what a leak changes, what runs cost, what is missing and how to make it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phased.report import names, paper
from phased.report.results import Result
from phased.report.study import Group, Spread, frozen, gather, spread


class LeakPair(NamedTuple):
    """The same runs with and without a leak; `faster` is how many times shorter an epoch is without, on the same device."""

    without: Group
    leaking: Group
    faster: float | None

    @property
    def difference(self) -> float:
        """How much higher the metric is without the leak."""
        return self.without.test.mean - self.leaking.test.mean

    @property
    def within_spread(self) -> bool | None:
        """Whether the difference is no larger than the larger standard deviation; None where a side has one seed only."""
        sides = self.without.test.deviation, self.leaking.test.deviation
        return None if sides[0] is None or sides[1] is None else abs(self.difference) <= max(sides[0], sides[1])


def leak_pairs(of: Sequence[Group]) -> list[LeakPair]:
    """Groups that differ in the leak alone, one of them without."""

    def rest(group: Group) -> str:
        settings = {key: value for key, value in group.settings.items() if key.rpartition(".")[2] not in {"leak", "name"}}
        return frozen([group.experiment, group.scale, group.model, group.condition, settings])

    leaks = [(group, leak) for group in of if isinstance(leak := group.settings.get("leak"), int | float)]
    without = {rest(group): group for group, leak in leaks if leak == 0}
    return [
        LeakPair(without[rest(group)], group, _faster(without[rest(group)], group))
        for group, leak in leaks
        if leak > 0 and rest(group) in without
    ]


def _faster(one: Group, other: Group) -> float | None:
    devices = {result.device for result in (*one.results, *other.results)}
    seconds = epoch_seconds(one.results), epoch_seconds(other.results)
    return seconds[1] / seconds[0] if len(devices) == 1 and seconds[0] > 0 else None


def epoch_seconds(runs: Sequence[Result]) -> float:
    """The mean over runs of the median time of an epoch."""
    times = (spread(point.seconds for point in run.curve).values for run in runs)
    return spread(float(np.median(each)) for each in times if each).mean


class Cost(NamedTuple):
    """The time runs of one experiment and model took on one device."""

    experiment: str
    scale: str
    label: str
    device: str
    wall: Spread
    epoch: float


def costs(results: Sequence[Result]) -> list[Cost]:
    """Wall time over conditions and seeds, by experiment, model and device; runs made on two devices count on both."""
    gathered: defaultdict[tuple[str, str, str, str], list[Result]] = defaultdict(list)
    for group in gather(results):
        for result in group.results:
            gathered[group.experiment, group.scale, group.label, result.device].append(result)
    return [Cost(*key, spread(run.wall for run in runs), epoch_seconds(runs)) for key, runs in gathered.items()]


class Missing(NamedTuple):
    """What a figure of the paper still lacks at the paper's scale, and the command that makes it."""

    figure: paper.Figure
    lacks: list[str]
    command: str

    @property
    def summary(self) -> str:
        """How much of the figure has fewer seeds than the paper's."""
        of = len(self.figure.conditions) * len(self.figure.models)
        return f"{len(self.lacks)} of its {names.counted(of, 'line')} have fewer than {paper.SEEDS} seeds at the paper's scale"


def missing(of: Sequence[Group], results: str = "results") -> list[Missing]:
    """Bars and curves of the paper with fewer than its five seeds at its scale."""
    found = []
    for figure in paper.FIGURES:
        best = {(model, condition): 0 for condition in figure.conditions for model in figure.models}
        for group in of:
            if (group.experiment, group.scale) == (figure.experiment, "paper") and (group.model, group.condition) in best:
                key = (group.model, group.condition)
                best[key] = max(best[key], len(set(group.seeds)))
        lacks = [
            f"{names.model(model)}, {names.condition(condition, short=True)}: {have} of {paper.SEEDS} seeds"
            for (model, condition), have in best.items()
            if have < paper.SEEDS
        ]
        if lacks:
            found.append(Missing(figure, lacks, command(figure.experiment, results)))
    return found


def command(experiment: str, results: str = "results") -> str:
    """The command that runs what an experiment lacks at the paper's scale; finished runs are skipped."""
    return f"phased run {experiment} --scale paper --seeds {paper.SEEDS} --out {results}"
