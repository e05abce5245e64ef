"""Accuracy of the estimator on PhysioNet 2012, in-hospital mortality: cross-validation of several cells on the same folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from phased.cli.options import path
from phased.data.places import find
from phased.estimator import Events, PhasedClassifier
from phased_lab.bench.cases import Case, Cases, Row, Sheet, benchmark, texts
from phased_lab.bench.estimators import Seeds, epochs_of, fitted_in_turns

STAYS, OUTCOMES, TARGET = "set-a", "Outcomes-a.txt", "In-hospital_death"
PHYSIONET = (
    f"PhysioNet 2012: {STAYS} and {OUTCOMES}",
    "Download and unpack them from https://physionet.org/content/challenge-2012/1.0.0",
)
MISSING = {"Height": -1, "Weight": -1}
"""Marks for "not known"."""

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


Folds = Annotated[int, typer.Option("--folds", metavar="K", min=2, help="Parts, each predicted by models of the others.")]
Stays = Annotated[
    Path | None, path("--data", metavar="DIR", help="The folder with set-a and Outcomes-a.txt. Default: in PHASED_DATA.")
]


def read(data: Path | None) -> tuple[Events, Labels]:
    """Read the stays and outcomes from a folder with the files of PhysioNet, or with such a folder in it."""
    folder = find(*PHYSIONET, ("physionet2012", ""), (f"{STAYS}/*.txt",), data)
    events = Events.read(folder / STAYS, merge="mean", missing=MISSING, drop=["RecordID"])
    return events, np.asarray(events.labels(folder / OUTCOMES, target=TARGET), np.int64)


def fold(events: Events, y: Labels, test: Labels, which: int, folds: int, seeds: int, units: int, epochs: int) -> dict[str, Any]:
    """Train every cell with every seed on the other folds, and predict the stays of a fold, on the CPU."""
    train = np.setdiff1d(np.arange(len(y)), test)
    states = range(which, seeds * folds, folds)
    models = fitted_in_turns(events[train], y[train], states, units=units, epochs=epochs)
    return {
        "stays": len(test),
        "deaths": int(y[test].sum()),
        **scores(y[test], {name: [model.predict_proba(events[test])[:, 1] for model in own] for name, own in models.items()}),
        "epochs_kept": {name: [model.report_.best for model in own] for name, own in models.items()},
        "seconds": epochs_of(models),
    }


def scores(y: Labels, p: Mapping[str, Sequence[Numbers]]) -> dict[str, Any]:
    """Score each cell from the probabilities of each seed. Differences to the first cell have standard errors."""
    found: dict[str, Any] = {}
    for name, score in (("auroc", roc_auc_score), ("auprc", average_precision_score)):
        found[name] = {cell: [float(score(y, each)) for each in own] for cell, own in p.items()}
        found[f"{name}_together"] = {cell: float(score(y, np.mean(own, 0))) for cell, own in p.items()}
    ranks = {cell: np.mean([ranked(y, each) for each in own], 0) for cell, own in p.items()}
    first = next(iter(ranks.values()))
    return found | {"difference": {cell: paired(y, own - first) for cell, own in ranks.items()}}


def ranked(y: Labels, p: Numbers) -> Numbers:
    """Return for each stay the share of the other class that is ranked on the correct side.

    The mean over the stays of one class is the AUROC. The differences of the shares of two models give the error of the
    difference of the AUROCs (DeLong et al. 1988).
    """
    below = np.zeros(len(y))
    for own in (y == 0, y == 1):
        others = np.sort(p[~own])
        below[own] = np.mean([np.searchsorted(others, p[own], side) for side in ("left", "right")], 0) / len(others)
    shares: Numbers = np.where(y == 1, below, 1 - below)
    return shares


def paired(y: Labels, difference: Numbers) -> tuple[float, float]:
    """Return the mean difference of the AUROCs of two models on the same stays and the standard error."""
    parts = [difference[y == 1], difference[y == 0]]
    return float(parts[0].mean()), float(np.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)))


def by_cell(cases: Cases) -> Iterator[tuple[str, ...]]:
    """A row for each cell. Scores are means over folds, because models of different folds need not have one scale."""
    seconds = {name: median(Row(fold, "").median(name) for fold in cases) for name in (cases[0]["auroc"] if cases else ())}
    first = next(iter(seconds), "")
    for name in seconds:
        auroc, together, auprc = (np.mean([case[key][name] for case in cases], 0) for key in ("auroc", "auroc_together", "auprc"))
        differences, errors = np.transpose([case["difference"][name] for case in cases])
        yield (
            name,
            f"{auroc.mean():.4f}" + (f" ± {auroc.std(ddof=1):.4f}" if len(auroc) > 1 else ""),
            f"{together:.4f}",
            f"{auprc.mean():.3f}",
            "" if name == first else f"{differences.mean():+.4f} ± {np.sqrt(np.sum(errors**2)) / len(cases):.4f}",
            f"{seconds[name]:.2f}",
            "" if name == first else f"{seconds[name] / seconds[first]:.1f}x",
        )


@benchmark(
    Sheet(
        by_cell,
        texts(
            "cell",
            "AUROC",
            "all seeds together",
            "AUPRC",
            "difference to the first row",
            "s per epoch",
            "speed-up of the first row",
        ),
    ),
    quick={"seeds": 1, "epochs": 2},
    threads=1,
)
def physionet(
    data: Stays = None,
    seeds: Seeds = 5,
    folds: Folds = 5,
    units: int = PhasedClassifier.units,
    epochs: int = PhasedClassifier.epochs,
) -> Iterator[Case]:
    """Every cell with every seed on every fold, with the defaults of the estimator.

    Folds are stratified by outcome and the same for all seeds. A seed sets the initial weights, the order of batches and the
    stays that are held out for early stopping.
    """
    events, y = read(data)
    for which, (_, test) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=0).split(y, y)):
        yield Case("in-hospital death", f"fold {which}", partial(fold, events, y, test, which, folds, seeds, units, epochs))
