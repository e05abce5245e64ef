"""What the report states beside the figures: the effect of the leak, the time of runs, and missing runs with their commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phased_lab.report import names
from phased_lab.report.groups import Group, Spread, frozen, gather, spread
from phased_lab.runs import catalogue
from phased_lab.runs.descriptor import Experiment
from phased_lab.runs.record import Record


class LeakPair(NamedTuple):
    """The same runs with and without a leak; `faster` is how many times shorter an epoch is without it, on the same device."""

    without: Group
    leaking: Group
    faster: float | None

    @property
    def difference(self) -> float:
        """The metric without the leak minus the metric with it."""
        return self.without.test.mean - self.leaking.test.mean

    @property
    def within_spread(self) -> bool | None:
        """Whether the difference is at most the larger standard deviation; None if one of the groups has only one seed."""
        sides = self.without.test.deviation, self.leaking.test.deviation
        return None if sides[0] is None or sides[1] is None else abs(self.difference) <= max(sides[0], sides[1])


def leak_pairs(of: Sequence[Group]) -> list[LeakPair]:
    """Pairs of groups that differ only in the leak, one of them without."""

    def rest(group: Group) -> str:
        settings = {key: value for key, value in group.settings.items() if key.rpartition(".")[2] not in {"leak", "name"}}
        return frozen([*group.section, group.study, group.model, group.condition, settings])

    leaks = [(group, leak) for group in of if isinstance(leak := group.settings.get("leak"), int | float)]
    without = {rest(group): group for group, leak in leaks if leak == 0}
    return [
        LeakPair(without[rest(group)], group, _faster(without[rest(group)], group))
        for group, leak in leaks
        if leak > 0 and rest(group) in without
    ]


def _faster(one: Group, other: Group) -> float | None:
    devices = {record.device for record in (*one.records, *other.records)}
    seconds = epoch_seconds(one.records), epoch_seconds(other.records)
    return seconds[1] / seconds[0] if len(devices) == 1 and seconds[0] > 0 else None


def epoch_seconds(runs: Sequence[Record]) -> float:
    """The median time of an epoch of each run, averaged over runs."""
    times = (spread(point.seconds for point in run.curve).values for run in runs)
    return spread(float(np.median(each)) for each in times if each).mean


class Cost(NamedTuple):
    """The time that the runs of one experiment and model took on one device."""

    experiment: Experiment
    scale: str
    label: str
    device: str
    wall: Spread
    epoch: float


def costs(records: Sequence[Record]) -> list[Cost]:
    """Wall time over conditions and seeds, by experiment, model and device; a run repeated on another device counts for both."""
    gathered: defaultdict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for group in gather(records):
        for record in group.records:
            gathered[group.experiment.name, group.scale, group.label, record.device].append(record)
    return [
        Cost(catalogue.experiment(name), scale, label, device, spread(run.wall for run in runs), epoch_seconds(runs))
        for (name, scale, label, device), runs in gathered.items()
    ]


class Missing(NamedTuple):
    """The runs that a figure of the paper still lacks at the paper's scale, and the command that runs them."""

    experiment: Experiment
    lacks: list[str]
    command: str

    @property
    def summary(self) -> str:
        """How many bars or curves of the figure have fewer seeds than in the paper."""
        of = names.counted(len(self.experiment.figure_runs()), "line")
        return f"{len(self.lacks)} of its {of} have fewer than {self.experiment.seeds} seeds at the paper's scale"


def missing(of: Sequence[Group], folder: str = "results") -> list[Missing]:
    """Bars and curves of the paper with too few seeds at the paper's scale."""
    found = []
    for experiment in catalogue.experiments().values():
        best = dict.fromkeys(experiment.figure_runs(), 0)
        for group in of:
            key = group.model, group.condition
            if (group.experiment.name, group.scale) == (experiment.name, "paper") and key in best:
                best[key] = max(best[key], len(set(group.seeds)))
        lacks = [
            f"{experiment.label(model)}, {experiment.condition(condition, short=True)}: {have} of {experiment.seeds} seeds"
            for (model, condition), have in best.items()
            if have < experiment.seeds
        ]
        if lacks:
            found.append(Missing(experiment, lacks, command(experiment, folder)))
    return found


def command(experiment: Experiment, folder: str = "results") -> str:
    """The command for an experiment's missing runs at the paper's scale; finished runs are skipped."""
    return f"phased run {experiment.studies[0].name} --scale paper --seeds {experiment.seeds} --out {folder}"
