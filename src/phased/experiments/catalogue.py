"""The list of experiments: each folder of `phased.paper` with an EXPERIMENT. Adding a folder adds an experiment."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from phased.experiments.descriptor import PHASED, Experiment, Study

PLACE = "phased.paper"


@cache
def experiments() -> dict[str, Experiment]:
    """All descriptors by name, ordered by `place`."""
    package = import_module(PLACE)
    found = [
        import_module(f"{PLACE}.{module.name}").EXPERIMENT
        for module in iter_modules(package.__path__)
        if module.ispkg and hasattr(import_module(f"{PLACE}.{module.name}"), "EXPERIMENT")
    ]
    names = [name for experiment in found for name in {experiment.name, *commands(experiment)}]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names of experiments and studies must be different from each other, got {', '.join(twice)} twice.")
    return {experiment.name: experiment for experiment in sorted(found, key=lambda one: (one.place, one.name))}


def experiment(name: str) -> Experiment:
    """The descriptor of this name; a default one if there is none, for results of unknown experiments."""
    return experiments().get(name) or Experiment(name, name, models=(PHASED,))


def studies() -> dict[str, Study]:
    """All studies by name."""
    return {study.name: study for experiment in experiments().values() for study in experiment.studies}


def drawn() -> dict[str, Experiment]:
    """All experiments without training, by name: those with `draw`."""
    return {experiment.name: experiment for experiment in experiments().values() if experiment.draw is not None}


def commands(experiment: Experiment) -> dict[str, str]:
    """The names that `phased run` accepts for this experiment, each with a line of help."""
    if experiment.studies:
        return {study.name: study.about for study in experiment.studies}
    return {experiment.name: experiment.about}
