"""Accuracy of the estimator on PhysioNet 2012, in-hospital mortality: cross-validation of several cells on the same folds."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

import phased
from phased.estimator import Events, PhasedClassifier
from phased_lab.bench.kept import kept

STAYS, OUTCOMES, TARGET = "set-a", "Outcomes-a.txt", "In-hospital_death"
MISSING = {"Height": -1, "Weight": -1}
"""Marks for "not known"."""
CELLS = {"phased LSTM": "phased_lstm", "nn.LSTM": "lstm", "nn.GRU": "gru"}

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is fitted: every cell, with every seed, on every fold. All else are the estimator's defaults.

    Args:
        cells: names from CELLS.
        seeds: of the initial weights, of the order of batches and of what is held out for early stopping.
        folds: parts of the stays, stratified by outcome and the same for all seeds. Each is predicted by models of the others.
        units: of every cell.
        epochs: the most epochs.
    """

    cells: tuple[str, ...] = tuple(CELLS)
    seeds: int = 5
    folds: int = 5
    units: int = PhasedClassifier.units
    epochs: int = PhasedClassifier.epochs

    def fits(self) -> list[Fit]:
        """All fits; cells take turns, so that changes of the machine's speed affect all of them."""
        return [Fit(cell, seed, fold) for seed in range(self.seeds) for fold in range(self.folds) for cell in self.cells]

    def folds_of(self, y: NDArray[Any]) -> list[NDArray[np.int64]]:
        """The numbers of the stays of each fold."""
        return [test for _, test in StratifiedKFold(self.folds, shuffle=True, random_state=0).split(y, y)]


class Fit(NamedTuple):
    """One of the fits."""

    cell: str
    seed: int
    fold: int

    def __str__(self) -> str:
        return f"{self.cell}, seed {self.seed}, fold {self.fold}"


class Part(NamedTuple):
    """The result of a fit: probabilities of death of the fold's stays, the epoch that was kept, and the seconds of each epoch."""

    probability: list[float]
    kept: int
    seconds: list[float]


def read(folder: Path) -> tuple[Events, NDArray[np.int64]]:
    """The stays and outcomes in a folder with PhysioNet's own files; a FileNotFoundError if they are not there."""
    for name in (STAYS, OUTCOMES):
        if not (folder / name).exists():
            raise FileNotFoundError(
                f"there must be '{STAYS}' and '{OUTCOMES}' of PhysioNet 2012 in '{folder}', got no '{name}'. "
                f"Download and unpack them from https://physionet.org/content/challenge-2012/1.0.0"
            )
    events = Events.read(folder / STAYS, merge="mean", missing=MISSING)
    return events, np.asarray(events.labels(folder / OUTCOMES, target=TARGET), np.int64)


def fit(events: Events, y: NDArray[np.int64], plan: Plan, which: Fit) -> Part:
    """Train on all folds except one, and predict that one, on the CPU."""
    test = plan.folds_of(y)[which.fold]
    train = np.setdiff1d(np.arange(len(y)), test)
    model = PhasedClassifier(
        cell=CELLS[which.cell],
        units=plan.units,
        epochs=plan.epochs,
        device="cpu",
        random_state=which.seed * plan.folds + which.fold,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of units that open at no step, for each of many fits
        found = model.fit(events[train], y[train]).predict_proba(events[test])[:, 1]
    return Part(found.tolist(), model.report_.best, [epoch.seconds for epoch in model.report_.curve])


def fields(events: Events, y: NDArray[np.int64], plan: Plan, which: Fit) -> dict[str, Any]:
    """The result of a fit, by field."""
    return fit(events, y, plan, which)._asdict()


def run(events: Events, y: NDArray[np.int64], plan: Plan, folder: Path | None, before: Callable[[Fit], None]) -> dict[Fit, Part]:
    """All fits; `before` is called before each. With a folder, each leaves a file there, and a later call reads it."""
    parts = {}
    for which in plan.fits():
        before(which)
        name = f"{CELLS[which.cell]}-{which.seed}-{which.fold}"
        parts[which] = Part(**kept(folder, name, partial(fields, events, y, plan, which)))
    return parts


def identity(events: Events, y: NDArray[np.int64], plan: Plan) -> str:
    """A digest of data, plan and version, by which a folder of finished fits is found again; seeds may be added."""
    settings = {name: value for name, value in asdict(plan).items() if name not in ("cells", "seeds")}
    found = hashlib.sha256(repr((phased.__version__, PhasedClassifier().get_params(), settings)).encode())
    for part in (events.time, events.value, events.static, y):
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:16]


def summary(y: NDArray[np.int64], plan: Plan, parts: dict[Fit, Part]) -> list[dict[str, Any]]:
    """Scores of each cell. Scores are means over folds, because models of different folds need not have one scale."""
    folds = plan.folds_of(y)
    found, first = [], None
    for cell in plan.cells:
        runs = [whole(y, folds, [parts[Fit(cell, seed, fold)] for fold in range(plan.folds)]) for seed in range(plan.seeds)]
        own = [part for which, part in parts.items() if which.cell == cell]
        ranks = np.mean([ranked(y, folds, p) for p in runs], 0)
        first = ranks if first is None else first
        difference, error = paired(y, ranks - first)
        each = [by_fold(roc_auc_score, y, folds, p) for p in runs]
        found.append(
            {
                "cell": cell,
                "units": plan.units,
                "auroc": each,
                "auroc_mean": float(np.mean(each)),
                "auroc_spread": float(np.std(each, ddof=1)) if len(each) > 1 else None,
                "auroc_together": by_fold(roc_auc_score, y, folds, np.mean(runs, 0)),
                "auprc": [by_fold(average_precision_score, y, folds, p) for p in runs],
                "auprc_together": by_fold(average_precision_score, y, folds, np.mean(runs, 0)),
                "difference": difference,
                "difference_error": error,
                "epochs_kept": [part.kept for part in own],
                "seconds_per_epoch": median(seconds for part in own for seconds in part.seconds),
            }
        )
    return found


def whole(y: NDArray[np.int64], folds: list[NDArray[np.int64]], parts: list[Part]) -> Numbers:
    """The probabilities of all stays, each from the model that did not see it."""
    p = np.zeros(len(y))
    for fold, part in zip(folds, parts, strict=True):
        p[fold] = part.probability
    return p


def by_fold(score: Callable[..., float], y: NDArray[np.int64], folds: list[NDArray[np.int64]], p: Numbers) -> float:
    """The mean of a score over folds."""
    return float(np.mean([score(y[fold], p[fold]) for fold in folds]))


def ranked(y: NDArray[np.int64], folds: list[NDArray[np.int64]], p: Numbers) -> Numbers:
    """For each stay the share of those of the other class, in its fold, that it is on the right side of.

    The mean over the stays of one class is the AUROC; the differences of two models' shares give the error of the difference
    of their AUROCs (DeLong et al. 1988).
    """
    shares = np.zeros(len(y))
    for fold in folds:
        dead = y[fold] == 1
        values = np.sort(p[fold][dead]), np.sort(p[fold][~dead])
        for own, other, sign in ((dead, values[1], 1), (~dead, values[0], -1)):
            below = [np.searchsorted(other, p[fold][own], side) for side in ("left", "right")]
            share = np.mean(below, 0) / len(other)
            shares[fold[own]] = share if sign > 0 else 1 - share
    return shares


def paired(y: NDArray[np.int64], difference: Numbers) -> tuple[float, float]:
    """The mean difference of two models' AUROCs on the same stays, and its standard error."""
    parts = [difference[y == 1], difference[y == 0]]
    return float(parts[0].mean()), float(np.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)))
