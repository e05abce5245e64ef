"""Accuracy of the estimators on tables of sequences at uneven times, by cross-validation, and of other models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean, stdev
from threading import Lock
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from phased import check
from phased.cli.options import path
from phased_lab.bench.cases import Case, Cases, Sheet, benchmark, texts
from phased_lab.bench.table_models import BUDGETS, CELLS, MODELS, PEERS, Sequences, fitted, interpreter
from phased_lab.bench.table_sets import SETS, Problem, read, scores

Data = Annotated[
    Path | None, path("--data", metavar="DIR", help="The folder with tables and physionet2012. Default: PHASED_DATA.")
]
Pickles = Annotated[
    Path | None,
    path("--pickles", metavar="DIR", help="A folder to keep the sets in. Later calls read them from it."),
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME", help=f"Only this set; may be repeated: {', '.join(SETS)}.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", metavar="NAME", help=f"Only this model; may be repeated: {', '.join(MODELS)}.")
]
Peers = Annotated[
    bool, typer.Option("--peers", help="LightGBM and MiniRocket, in a virtual environment that is made in .peers if needed.")
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N - 1 of each model. Default: 5 or 2 by model.")
]
Folds = Annotated[int, typer.Option("--folds", metavar="K", min=2, help="Parts, each predicted by models of the others.")]
Only = Annotated[list[int] | None, typer.Option("--fold", metavar="N", min=0, help="Only fold N from 0; may be repeated.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="Fits at once. Each has one thread.")]

READING = Lock()


@lru_cache(maxsize=1)
def problem(name: str, data: Path | None, pickles: Path | None) -> Problem:
    """Read a set, which several cases have in common."""
    return read(name, data, pickles)


def evaluate(
    name: str, data: Path | None, pickles: Path | None, model: str, seed: int, which: int, folds: int, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Train a model on the other folds, and score its answers for a fold."""
    with READING:  # several cases may be measured at once
        events, _, classes, _ = found = problem(name, data, pickles)
    test = found.folds(folds)[which]
    train = np.setdiff1d(np.arange(len(events)), test)
    settings: dict[str, Any] = {"classes": 0 if classes is None else len(classes), "seed": seed}
    trained, unseen = events[train], events[test]
    if model in PEERS:
        known, new = (Sequences(each.sequence, each.time, each.dense(), each.static) for each in (trained, unseen))
        answer, cost = fitted(MODELS[model], (known, found.targets(train)), new, interpreter(), **settings)
    else:
        answer, cost = fitted(MODELS[model], (trained, found.targets(train)), unseen, **settings, **more)
    scored = scores(found.targets(test), answer, MODELS[model].every_step)
    return {"model": model, "seed": seed, "fold": which, "scores": scored, **cost}


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


def by_model(cases: Cases) -> Iterator[tuple[str, str, Sequence[Mapping[str, Any]]]]:
    """Each set and each model, with its fits."""
    for name in SETS:
        for model in MODELS:
            if fits := [case for case in cases if (case["part"], case["model"]) == (name, model)]:
                yield name, model, fits


def rows(cases: Cases) -> Iterator[tuple[str, ...]]:
    """A row for each model on each set. Costs are means over fits."""
    for name, model, fits in by_model(cases):
        score = SETS[name].score
        updates = [fit["updates"] for fit in fits if fit["updates"] is not None]
        yield (
            f"{name}: {score}",
            model,
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
    choices=("sets", "models", "only", "peers", "seeds", "jobs"),
)
def tables(
    data: Data = None,
    pickles: Pickles = None,
    sets: Sets = None,
    models: Models = None,
    peers: Peers = False,
    seeds: Seeds = None,
    folds: Folds = 5,
    only: Only = None,
    jobs: Jobs = 1,
    epochs: int | None = None,
) -> Iterator[Case]:
    """Every model on every fold of every set, each fit in a process of its own on one thread.

    The default and `gru`, the same network without gates, have five seeds, the others two. Folds are the same for all models and
    seeds. A lower score is better for errors. CPU seconds and the peak of the memory are of training and prediction, without
    imports. MiniRocket has no probabilities, and predicts no target of a step.
    """
    chosen = models or [*(PEERS if peers else CELLS | BUDGETS)]
    for option, names, known in (("--set", sets or SETS, SETS), ("--model", chosen, MODELS)):
        for name in names:
            check.choice(option, name, [*known])
    for which in only or ():
        if which >= folds:
            raise ValueError(f"--fold must be below the number of folds, {folds}, got {which}.")
    more = {} if epochs is None else {"epochs": epochs}
    for name in sets or SETS:
        able = [model for model in chosen if MODELS[model].every_step or not SETS[name].every_step]
        for seed in range(seeds or max(model.seeds for model in MODELS.values())):
            for which in only or range(folds):
                for model in able:
                    if seed < (seeds or MODELS[model].seeds):
                        measure = partial(evaluate, name, data, pickles, model, seed, which, folds, more)
                        yield Case(name, f"{model}, seed {seed}, fold {which}", measure)
