"""The list of experiments: each folder of `phased_lab.paper` with an EXPERIMENT. Adding a folder adds an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from phased_lab.runs.descriptor import PHASED, Experiment, Study

PLACE = "phased_lab.paper"
COMMAND_OPTIONS = {"animate", "scale", "seeds", "out", "jobs", "cluster", "device", "only", "help"}  # of `phased run` itself


@cache
def experiments() -> dict[str, Experiment]:
    """All descriptors by name, ordered by `place`."""
    package = import_module(PLACE)
    found = [
        import_module(f"{PLACE}.{module.name}").EXPERIMENT
        for module in iter_modules(package.__path__)
        if module.ispkg and hasattr(import_module(f"{PLACE}.{module.name}"), "EXPERIMENT")
    ]
    for experiment in found:
        check_descriptor(experiment)
    names = [name for experiment in found for name in {experiment.name, *commands(experiment)}]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names of experiments and studies must be different from each other, got {', '.join(twice)} twice.")
    return {experiment.name: experiment for experiment in sorted(found, key=lambda one: (one.place, one.name))}


def check_descriptor(experiment: Experiment) -> None:
    """A ValueError for a descriptor that could not be run or shown."""
    problem = next(problems(experiment), None)
    if problem is not None:
        raise ValueError(f"the descriptor of the experiment '{experiment.name}' is wrong: {problem}.")


def problems(experiment: Experiment) -> Iterator[str]:
    """What is wrong with a descriptor."""
    if bool(experiment.studies) == (experiment.draw is not None):
        yield "it must have studies, which are trained, or `draw`, and not both"
    studies = {study.name for study in experiment.studies}
    named = {*experiment.updates_of, *(row.study for row in experiment.table if row.study)}
    for name in sorted(named - studies):
        yield f"it names a study '{name}' that it does not have"
    for model, condition in experiment.claims:
        if (model, condition) not in [(kind.name, each) for kind in experiment.models for each in experiment.conditions]:
            yield f"it has a claim for '{model}' under '{condition}', which it does not list"
    kinds = {kind.name for kind in experiment.models}
    for name in sorted({name for row in experiment.table for name in row.paper} - kinds):
        yield f"its table has a number for '{name}', a network that it does not list"
    for name in sorted({row.condition for row in experiment.table if row.condition} - experiment.conditions.keys()):
        yield f"its table has a row for the condition '{name}', which it does not list"
    for option in {option for study in experiment.studies for option in study.options}:
        if not option.isidentifier() or option in COMMAND_OPTIONS:
            yield f"options must be Python names other than those of `phased run`, got '{option}'"


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
