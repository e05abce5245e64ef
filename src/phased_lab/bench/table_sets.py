"""Public data sets of sequences at uneven times: how each is read, its folds, and its scores."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.model_selection import KFold, StratifiedKFold

from phased.cli.estimator import Labels, with_targets
from phased.data.places import find
from phased.estimator import Events
from phased_lab.bench import physionet

TABLES = (
    "the public tables: folders such as vowels with train.parquet and train_labels.parquet",
    "Their README names the sources",
)
READ = ("id", "time", "unit")
"""Options of a command that are arguments of `Events.read`."""

ERRORS = ("mean absolute error", "log loss")
"""Scores that are better if they are lower."""
Array = NDArray[Any]


class PublicSet(NamedTuple):
    """A data set.

    Args:
        score: the score by which models are compared, a key of `scores`.
        files: name of its two files, with a place for "train" and "train_labels", in its folder of `tables`.
        options: options of `phased fit` with which they are read.
    """

    score: str = "accuracy"
    files: str = "{}.parquet"
    options: str = ""

    @property
    def every_step(self) -> bool:
        """Whether steps have targets, and not sequences."""
        return "--labels-time" in self.options


SETS = {
    "stars": PublicSet(options="--id star --time hjd --unit d --labels-id star --target class"),
    "mouse": PublicSet(options="--id piece --time 'record timestamp' --unit s --labels-id piece --target user"),
    "sepsis": PublicSet(
        "AUROC", options="--id patient --time ICULOS --unit h --labels-id patient --labels-time ICULOS --target SepsisLabel"
    ),
    "badges": PublicSet(
        files="{}.csv.xz",
        options="--id user --time date --unit d --labels-id user --labels-time date --target next_badge",
    ),
    "vowels": PublicSet(options="--id utterance --time frame --unit s --labels-id utterance --target speaker"),
    "eros": PublicSet(options="--unit d --target type"),
    "pbc": PublicSet("AUROC", options="--time year --unit y --labels-time year --target event_in_2_years"),
    "storms": PublicSet("mean absolute error", "{}.csv.xz", "--unit h --labels-time time --target wind_in_24h --task numbers"),
    "physionet": PublicSet("AUROC"),
}
"""The tables by the name of their folder, and PhysioNet 2012, which `phased_lab.bench.physionet` reads."""


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


def read(name: str, data: Path | None = None) -> Problem:
    """Read the training part of a set from a folder with the folders `tables` and `physionet2012`. Default: PHASED_DATA."""
    if name == "physionet":
        return Problem.of(*physionet.read(data), numbers=False, every_step=False)
    known = SETS[name]
    folder = find(*TABLES, ("tables", ""), (f"{name}/{known.files.format('train_labels')}",), data) / name
    source, labels = (folder / known.files.format(part) for part in ("train", "train_labels"))
    words = shlex.split(known.options)
    given: dict[str, Any] = {option[2:].replace("-", "_"): value for option, value in zip(words[::2], words[1::2], strict=True)}
    events = Events.read(source, **{role: value for role, value in given.items() if role in READ})
    asked = {option: value for option, value in given.items() if option.startswith(("labels", "target"))}
    events, y = with_targets(Labels(labels, **asked), events)
    return Problem.of(events, y, given.get("task") == "numbers", known.every_step)


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
        return {"mean absolute error": float(metrics.mean_absolute_error(y, answer))}
    chosen, classes = answer.argmax(1), range(answer.shape[1])
    balanced = metrics.recall_score(y, chosen, labels=np.unique(y), average="macro", zero_division=0)
    found = {"accuracy": metrics.accuracy_score(y, chosen), "balanced accuracy": balanced}
    if len(classes) == 2 and len(np.unique(y)) == 2:
        found["AUROC"] = metrics.roc_auc_score(y, answer[:, 1])
    if probabilities:
        found["log loss"] = metrics.log_loss(y, answer, labels=classes)
    return {name: float(value) for name, value in found.items()}
