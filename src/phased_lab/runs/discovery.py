"""The list of experiments: those in the modules of `phased_lab.paper`. Adding a file or a folder adds its experiments."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from phased_lab.runs.descriptor import PHASED, Experiment, Study

PLACE = "phased_lab.paper"


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by name, ordered by `place`."""
    modules = [import_module(f"{PLACE}.{module.name}") for module in iter_modules(import_module(PLACE).__path__)]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Experiment)]
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
