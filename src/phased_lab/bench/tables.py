"""Accuracy of the estimators on public tables of sequences at uneven times, by cross-validation, and of other models."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from phased import check
from phased.cli.options import path
from phased.estimator import Events, PhasedClassifier
from phased_lab.bench import table_fit, table_peers
from phased_lab.bench.cases import Case, Cases, Sheet, benchmark, texts
from phased_lab.bench.estimators import Seeds
from phased_lab.bench.physionet import Folds
from phased_lab.bench.table_fit import Fit, in_process
from phased_lab.bench.table_sets import SETS, Problem, read, scores
from phased_lab.bench.table_summaries import Sequences


class Model(NamedTuple):
    """A model of the benchmark.

    Args:
        function: "module:function", as in `Fit`.
        imports: modules that the function needs.
        settings: arguments of the function, besides the number of classes and the seed.
        every_step: whether the model can predict a target for each step. A model that cannot has no probabilities either.
    """

    function: str
    imports: tuple[str, ...]
    settings: Mapping[str, Any]
    every_step: bool = True


FIT, PEER = table_fit.__name__, table_peers.__name__
ROCKET = "aeon.transformations.collection.convolution_based", "sklearn.linear_model"
CELLS = [cell for cell in ("phased_lstm", "gru", "lstm") if cell != PhasedClassifier.cell]
OWN = {
    name: Model(f"{FIT}:estimator", ("phased.estimator",), settings)
    for name, settings in {"default": {}, **{cell: {"cell": cell} for cell in CELLS}}.items()
}
"""The estimator with all defaults, and with other cells."""
PEERS = {
    "lightgbm": Model(f"{PEER}:boosting", ("lightgbm",), {}),
    "minirocket_rows": Model(f"{PEER}:rocket", ROCKET, {"by_time": False}, every_step=False),
    "minirocket_time": Model(f"{PEER}:rocket", ROCKET, {"by_time": True}, every_step=False),
}
"""Other models, which another interpreter has."""
MODELS = OWN | PEERS

Data = Annotated[
    Path | None, path("--data", metavar="DIR", help="The folder with tables and physionet2012. Default: PHASED_DATA.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME", help=f"Only this set; may be repeated: {', '.join(SETS)}.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", metavar="NAME", help=f"Only this model; may be repeated: {', '.join(MODELS)}.")
]
Only = Annotated[list[int] | None, typer.Option("--fold", metavar="N", min=0, help="Only fold N from 0; may be repeated.")]
Peers = Annotated[
    bool, typer.Option("--peers", help="LightGBM and MiniRocket, in a virtual environment that is made in .peers if needed.")
]


@lru_cache(maxsize=1)
def problem(name: str, data: Path | None) -> Problem:
    """Read a set, which several cases have in common."""
    return read(name, data)


def evaluate(name: str, data: Path | None, model: str, seed: int, which: int, folds: int, epochs: int | None) -> dict[str, Any]:
    """Train a model on the other folds in a process of its own, and score its answers for a fold."""
    found = problem(name, data)
    test = found.folds(folds)[which]
    train = np.setdiff1d(np.arange(len(found.events)), test)
    known, own = MODELS[model], model in OWN
    settings = {"classes": 0 if found.classes is None else len(found.classes), "seed": seed, **known.settings}
    if own and epochs is not None:
        settings["epochs"] = epochs
    trained, unseen = (found.events[rows] if own else arrays(found.events[rows]) for rows in (train, test))
    fit = Fit(known.function, known.imports, (trained, found.targets(train)), unseen, settings)
    done = in_process(fit, sys.executable if own else table_peers.interpreter())
    return {
        "model": model,
        "seed": seed,
        "fold": which,
        "scores": scores(found.targets(test), done.answer, known.every_step),
        "updates": done.updates,
        "seconds": {model: done.seconds},
        "cpu": done.cpu,
        "memory": done.memory,
    }


def arrays(events: Events) -> Sequences:
    """The arrays of sequences, for an interpreter without the estimators."""
    parts = (events.offset, events.time, events.entry, events.variable, events.value, events.static)
    return Sequences(*parts, len(events.variables))


class Mean(NamedTuple):
    """A score over seeds: the mean, and the deviation, NaN of one seed."""

    mean: float
    spread: float

    @classmethod
    def of(cls, fits: Cases, score: str) -> Mean | None:
        """From the means over the folds of each seed."""
        seeds = dict.fromkeys(fit["seed"] for fit in fits)
        found = [mean(fit["scores"].get(score, math.nan) for fit in fits if fit["seed"] == seed) for seed in seeds]
        return cls(mean(found), stdev(found) if len(found) > 1 else math.nan) if all(map(math.isfinite, found)) else None

    def __str__(self) -> str:
        digits = 3 if abs(self.mean) < 10 else 2
        return f"{self.mean:.{digits}f}" + (f" ± {self.spread:.{digits}f}" if math.isfinite(self.spread) else "")


def by_model(cases: Cases) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """The fits of each model on each set."""
    for name, model in dict.fromkeys((case["part"], case["model"]) for case in cases):
        yield name, [case for case in cases if (case["part"], case["model"]) == (name, model)]


def rows(cases: Cases) -> Iterator[tuple[str, ...]]:
    """A row for each model on each set. Costs are means over fits."""
    for name, fits in by_model(cases):
        score = SETS[name].score
        updates = [fit["updates"] for fit in fits if fit["updates"] is not None]
        yield (
            f"{name}: {score}",
            fits[0]["model"],
            *(str(Mean.of(fits, each) or "") for each in (score, "balanced accuracy", "log loss")),
            f"{mean(fit['cpu'] for fit in fits):.1f}",
            f"{100 * mean(updates):.0f} %" if updates else "",
            f"{mean(fit['memory'] for fit in fits) / 1e6:,.0f} MB",
            str(len(fits)),
        )


@benchmark(
    Sheet(rows, texts("set: score", "model", "score", "balanced accuracy", "log loss", "CPU s", "updates", "memory", "fits")),
    quick={"seeds": 1, "only": [0], "epochs": 2},
    threads=1,
    choices=("sets", "models", "only", "peers", "seeds"),
)
def tables(
    data: Data = None,
    sets: Sets = None,
    models: Models = None,
    peers: Peers = False,
    seeds: Seeds = 3,
    folds: Folds = 5,
    only: Only = None,
    epochs: int | None = None,
) -> Iterator[Case]:
    """Every model on every fold of every set with every seed, each in a process of its own on one thread.

    Folds are the same for all models and seeds. A lower score is better for errors. CPU seconds and the peak of the memory are of
    training and prediction, without imports. MiniRocket has no probabilities, and predicts no target of a step.
    """
    chosen = models or [*(PEERS if peers else OWN)]
    for option, names, known in (("--set", sets or SETS, SETS), ("--model", chosen, MODELS)):
        for name in names:
            check.choice(option, name, [*known])
    for which in only or ():
        if which >= folds:
            raise ValueError(f"--fold must be below the number of folds, {folds}, got {which}.")
    for name in sets or SETS:
        able = [model for model in chosen if MODELS[model].every_step or not SETS[name].every_step]
        for seed in range(seeds):
            for which in only or range(folds):
                for model in able:
                    measure = partial(evaluate, name, data, model, seed, which, folds, epochs)
                    yield Case(name, f"{model}, seed {seed}, fold {which}", measure)
