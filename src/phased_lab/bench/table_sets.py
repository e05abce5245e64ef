"""Data sets of sequences at uneven times, public and made up: how each is read, its folds, and its scores."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.model_selection import KFold, StratifiedKFold

from phased.data.places import find
from phased.estimator import Events
from phased.files import write_whole
from phased_lab.bench.table_made_up import mackey_glass, parity

ERRORS = ("mean absolute error", "error in deviations", "log loss")
"""Scores that are better if they are lower."""
Array = NDArray[Any]


class TableSet(NamedTuple):
    """A data set.

    Args:
        table: arguments of `Events.read`.
        labels: arguments of `Events.labels`.
        score: the score by which models are compared, a key of `scores`.
        files: the table and the labels.
        place: folder of the files.
        source: how to get the files, for an error.
        make: makes the sequences and the targets of a set without files.
        every_step: whether steps have targets, and not sequences.
    """

    table: Mapping[str, Any] = {}
    labels: Mapping[str, str] = {}
    score: str = "accuracy"
    files: tuple[str, str] = ("train.parquet", "train_labels.parquet")
    place: str = "tables/{}"
    source: str = "The README of the public tables names their sources"
    make: Callable[[], tuple[Events, Array]] | None = None
    every_step: bool = False


CSV = "train.csv.xz", "train_labels.csv.xz"
SETS = {
    "stars": TableSet({"id": "star", "time": "hjd", "unit": "d"}, {"id": "star", "target": "class"}),
    "mouse": TableSet({"id": "piece", "time": "record timestamp", "unit": "s"}, {"id": "piece", "target": "user"}),
    "sepsis": TableSet(
        {"id": "patient", "time": "ICULOS", "unit": "h"},
        {"id": "patient", "time": "ICULOS", "target": "SepsisLabel"},
        "AUROC",
        every_step=True,
    ),
    "badges": TableSet(
        {"id": "user", "time": "date", "unit": "d"},
        {"id": "user", "time": "date", "target": "next_badge"},
        files=CSV,
        every_step=True,
    ),
    "vowels": TableSet({"id": "utterance", "time": "frame", "unit": "s"}, {"id": "utterance", "target": "speaker"}),
    "eros": TableSet({"unit": "d"}, {"target": "type"}),
    "pbc": TableSet({"time": "year", "unit": "y"}, {"time": "year", "target": "event_in_2_years"}, "AUROC", every_step=True),
    "storms": TableSet({"unit": "h"}, {"time": "time", "target": "wind_in_24h"}, "mean absolute error", CSV, every_step=True),
    "physionet": TableSet(
        {"merge": "mean", "missing": {"Height": -1, "Weight": -1}, "drop": ["RecordID"]},
        {"target": "In-hospital_death"},
        "AUROC",
        ("set-a", "Outcomes-a.txt"),
        "physionet2012",
        "Download and unpack them from https://physionet.org/content/challenge-2012/1.0.0",
    ),
    "parity": TableSet(make=parity),
    "mackey_glass": TableSet(score="error in deviations", every_step=True, make=mackey_glass),
}
"""Eight public tables, PhysioNet 2012, and two made-up tasks."""


class Problem(NamedTuple):
    """Sequences and targets.

    Args:
        events: n sequences of S steps in all.
        y: number of the class, or the number to predict, of each sequence, (n,), or step, (S,). NaN where a step has none.
        classes: the sorted classes, or None for numbers.
    """

    events: Events
    y: NDArray[np.float64]
    classes: Array | None
    every_step: bool

    @classmethod
    def of(cls, events: Events, y: Array, numbers: bool, every_step: bool) -> Problem:
        """Number the classes."""
        if numbers:
            return cls(events, y.astype(np.float64), None, every_step)
        known = np.array([target is not None and target == target for target in y.tolist()])
        found = np.full(len(y), np.nan)
        classes, found[known] = np.unique(np.array(y[known].tolist()), return_inverse=True)
        return cls(events, found, classes, every_step)

    def targets(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The targets of these sequences, in their order."""
        if not self.every_step:
            return self.y[rows]
        parts = np.split(self.y, self.events.offset[1:-1])
        return np.concatenate([parts[row] for row in rows])

    def folds(self, count: int) -> list[NDArray[np.int64]]:
        """The test sequences of each fold, the same every time, stratified where a sequence has a class."""
        stratified = self.classes is not None and not self.every_step
        splitter = (StratifiedKFold if stratified else KFold)(count, shuffle=True, random_state=0)
        return [test for _, test in splitter.split(self.events.ids, self.y if stratified else None)]


def read(name: str, data: Path | None = None, pickles: Path | None = None) -> Problem:
    """Read the training part of a set.

    Args:
        name: of SETS.
        data: a folder with the folders `tables` and `physionet2012`. Default: PHASED_DATA.
        pickles: a folder of sets as they were read. A set that it has is read from there, and another one is added.
    """
    kept = pickles and pickles / f"{name}.pickle.gz"
    if kept and kept.exists():
        problem: Problem = pickle.loads(gzip.decompress(kept.read_bytes()))
        return problem
    known = SETS[name]
    events, y = known.make() if known.make else from_files(name, known, data)
    problem = Problem.of(events, y, known.score in ERRORS, known.every_step)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, gzip.compress(pickle.dumps(problem)))
    return problem


def from_files(name: str, known: TableSet, data: Path | None) -> tuple[Events, Array]:
    """Read the sequences and the targets."""
    place, (table, labels) = known.place.format(name), known.files
    folder = find(f"the set {name}: {table} and {labels}", known.source, (place, name, ""), (labels,), data)
    events = Events.read(folder / table, **known.table)
    return events, events.labels(folder / labels, **known.labels)


def scores(y: NDArray[np.float64], answer: Array, probabilities: bool = True) -> Mapping[str, float]:
    """Score the answers for known targets.

    Args:
        y: (n,) numbers of classes, or numbers.
        answer: (n, classes) probabilities, or other numbers that rank the classes; or (n,) numbers.
        probabilities: whether the log loss has a meaning.
    """
    known = ~np.isnan(y)
    y, answer = y[known], answer[known]
    if answer.ndim == 1:
        squared = metrics.root_mean_squared_error(y, answer) / y.std()
        return dict(zip(ERRORS, (float(metrics.mean_absolute_error(y, answer)), float(squared)), strict=False))
    chosen, classes = answer.argmax(1), range(answer.shape[1])
    balanced = metrics.recall_score(y, chosen, labels=np.unique(y), average="macro", zero_division=0)
    found = {"accuracy": metrics.accuracy_score(y, chosen), "balanced accuracy": balanced}
    if len(classes) == 2 and len(np.unique(y)) == 2:
        found["AUROC"] = metrics.roc_auc_score(y, answer[:, 1])
    if probabilities:
        found["log loss"] = metrics.log_loss(y, answer, labels=classes)
    return {name: float(value) for name, value in found.items()}
