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


def commands() -> dict[str, Study | Experiment]:
    """All studies, and the experiments without training, by the name that `phased run` accepts."""
    return {each.name: each for experiment in experiments().values() for each in experiment.studies or (experiment,)}


def studies() -> dict[str, Study]:
    """All studies by name."""
    return {name: found for name, found in commands().items() if isinstance(found, Study)}
