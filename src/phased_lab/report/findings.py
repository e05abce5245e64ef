"""Findings beside the figures: pairs of runs with and without a leak, and missing runs with their commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from phased_lab.report.seeds import Group
from phased_lab.runs import discovery
from phased_lab.runs.descriptor import Experiment


def leak_pairs(of: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Return pairs of groups without and with a leak that differ in no other setting."""

    def rest(group: Group) -> str:
        settings = {key: value for key, value in group.settings.items() if key.rpartition(".")[2] not in {"leak", "name"}}
        return json.dumps([*group.section, group.study, group.model, group.condition, settings], sort_keys=True)

    leaks = [(group, leak) for group in of if isinstance(leak := group.settings.get("leak"), int | float)]
    without = {rest(group): group for group, leak in leaks if leak == 0}
    return [(without[rest(group)], group) for group, leak in leaks if leak > 0 and rest(group) in without]


class Missing(NamedTuple):
    """The missing runs of one figure at the paper's scale, with the command for these runs."""

    experiment: Experiment
    lacks: list[str]
    command: str


def missing(of: Sequence[Group], folder: str = "results") -> list[Missing]:
    """Bars and curves of the paper with too few seeds at the paper's scale."""
    found = []
    for experiment in discovery.experiments().values():
        best = dict.fromkeys(experiment.figure_runs(), 0)
        for group in of:
            key = group.model, group.condition
            if (group.experiment.name, group.scale) == (experiment.name, "paper") and key in best:
                best[key] = max(best[key], len(group.records))
        lacks = [
            f"{experiment.kind(model).label}, {experiment.condition(condition, short=True)}: {have} of {experiment.seeds} seeds"
            for (model, condition), have in best.items()
            if have < experiment.seeds
        ]
        if lacks:
            lacks = lacks if any(best.values()) else ["no runs at the paper's scale"]
            name = experiment.studies[0].name
            command = f"phased run {name} --scale paper --seeds {experiment.seeds} --out {folder}"  # it skips finished runs
            found.append(Missing(experiment, lacks, command))
    return found
