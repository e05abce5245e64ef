"""Targets: classes or numbers, one for each sequence or one for each step, checked against the sequences."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import metrics
from torch import Tensor

from phased import check
from phased.estimator.events import Events
from phased.estimator.scaling import center_and_spread
from phased.estimator.settings import listed
from phased.fields import Between, Malformed
from phased.learn.batch import Batch
from phased.learn.metric import sum_of_losses
from phased.model_folder import MOST

LARGEST_TARGET = 1e150  # so that squares are finite
NUMBERS = "biuf"  # kinds of dtype


class Targets(NamedTuple):
    """Targets in the order of the sequences.

    Args:
        y: (n,), or (steps,) with one target per step.
        counts: None with one target per sequence; else (steps,) bool, False where a target is not known.
    """

    y: NDArray[Any]
    counts: NDArray[np.bool_] | None

    @classmethod
    def of(cls, events: Events, y: Any) -> Self:
        """The targets as given to `fit`: (n,), (steps,), or one array for each sequence, whose NaN mean "not known"."""
        check_name(events, getattr(y, "name", None))
        if ragged(y):
            given = [as_array(part) for part in y]
            check_count(events, len(given))
            for sequence, (part, steps) in enumerate(zip(given, events.lengths, strict=True)):
                if part.shape != (steps,):
                    raise ValueError(
                        f"targets must be given for each of the {steps} steps of {events.ids[sequence].item()!r}, got shape "
                        f"{part.shape}. Leave NaN where there is none."
                    )
            kinds = {part.dtype.kind in "UO" for part in given if len(part)}
            return cls.per_step(np.concatenate([part.astype(object) for part in given] if len(kinds) > 1 else given))
        flat = as_array(y)
        if flat.ndim != 1:
            raise ValueError(
                f"targets must have one dimension, got shape {flat.shape}. Pass y.ravel(), or fit a model for each column."
            )
        if len(flat) != len(events) and len(flat) == len(events.time):
            return cls.per_step(flat)
        check_count(events, len(flat))
        for at in np.flatnonzero(unknown(flat))[:1]:
            which = events.ids[at].item()
            raise ValueError(f"targets must be known for every sequence, got {flat[at]} for {which!r}. Leave out such sequences.")
        return cls(flat, None)

    @classmethod
    def per_step(cls, flat: NDArray[Any]) -> Self:
        """One target per step; NaN and None are not known."""
        counts = ~unknown(flat)
        if not counts.any():
            raise ValueError("targets must have a known target at one step at least, got none.")
        return cls(flat, counts)

    @property
    def which(self) -> Any:
        """The index of the targets that are known."""
        return slice(None) if self.counts is None else self.counts

    def known(self) -> NDArray[Any]:
        """The targets that are known."""
        found: NDArray[Any] = self.y[self.which]
        return found

    def filled(self, known: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """An array like y with these numbers where targets are known, and 0 elsewhere."""
        found = np.zeros(len(self.y), dtype)
        found[self.which] = known
        return found


@dataclass(frozen=True, eq=False)
class Classes:
    """Targets that are classes: sorted, with their dtype. A part of a saved model's configuration.

    `Classes` and `Number` have the same methods: all in which the two estimators differ.
    """

    dtype: str
    values: list[Any]

    stratified: ClassVar[bool] = True
    """Whether held-out sequences are drawn from every class alike."""

    def __post_init__(self) -> None:
        try:
            dtype = np.dtype(self.dtype)
            fits = dtype.kind in NUMBERS + "UO" and dtype.itemsize <= MOST
            if fits:
                np.array(self.values, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise Malformed(f"a field is missing or wrong ({error})") from error
        if not fits:
            raise Malformed(f"its 'classes' must be numbers or words, got the dtype {self.dtype!r}")
        if not 2 <= len(self.values) <= MOST:
            raise Malformed(f"it must have at least 2 classes, got {len(self.values)}")

    @classmethod
    def of(cls, found: Targets) -> Self:
        """The classes of the targets; a ValueError if they are fractions, of another type, or all the same."""
        known = found.known()
        if known.dtype.kind not in NUMBERS + "UO":
            raise ValueError(f"targets must be numbers or text, got {known.dtype}. Convert the classes to text.")
        if known.dtype.kind == "f" and not np.isfinite(known).all():
            raise ValueError("targets must be finite, got infinity. Leave out such sequences.")
        if known.dtype.kind == "f" and not (known == np.round(known)).all():
            raise ValueError(
                f"targets must be classes, got fractions such as {known[known != np.round(known)][0]}. For numbers use "
                "PhasedRegressor, or --task numbers."
            )
        names = np.array(known.tolist()) if known.dtype.kind == "O" else known
        if names.dtype.kind not in NUMBERS + "U":
            raise ValueError(f"targets must be numbers or text, got {type(known[0]).__name__}. Convert it to text.")
        names = np.unique(names)
        if len(names) < 2:
            raise ValueError(f"targets must have at least 2 classes, got {names.tolist()[0]!r} only.")
        whole = found.counts is not None and names.dtype.kind == "f"  # integers that NaN made floats of
        return cls.named(names.astype(np.int64) if whole else names)

    @classmethod
    def named(cls, names: NDArray[Any]) -> Self:
        """These classes, in this order."""
        return cls(names.dtype.str, names.tolist())

    @cached_property
    def names(self) -> NDArray[Any]:
        """The classes, (classes,)."""
        return np.array(self.values, self.dtype)

    @property
    def outputs(self) -> int:
        """The number of outputs of the network."""
        return len(self.values)

    @property
    def columns(self) -> list[Any]:
        """The names of the columns of answers."""
        return self.values

    def fields(self) -> dict[str, Any]:
        """The attributes of a fitted estimator."""
        return {"classes_": self.names}

    def encode(self, found: Targets) -> NDArray[np.int64]:
        """Targets as the network learns them: numbers of classes, and 0 where a target is not known."""
        known = self._as_text(found.known()) if self.names.dtype.kind == "U" else found.known()
        strange = np.setdiff1d(known, self.names)
        if len(strange):
            raise ValueError(f"targets must have classes of the model, {self.names.tolist()}, got {strange.tolist()[0]!r}.")
        return found.filled(np.searchsorted(self.names, known.astype(self.names.dtype)), np.int64)

    def _as_text(self, known: NDArray[Any]) -> NDArray[Any]:
        """Numbers as the names of classes: a part of the classes 1, 2 and A may be read as numbers."""
        if known.dtype.kind not in NUMBERS:
            return known
        names = {str(name).lower(): name for name in self.names}
        whole = known.astype(np.int64) if known.dtype.kind == "f" else known
        return np.array([names.get(str(each).lower(), str(each)) for each in whole], object)

    def objective(self, y: NDArray[Any], weight: Any) -> Objective:
        """What is minimised for these encoded targets with `class_weight`: cross entropy."""
        return Objective(class_weights(weight, self.names, y))

    def answer(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answers from the outputs of the network, (N, classes): probabilities."""
        powers = np.exp(outputs - outputs.max(1, keepdims=True))
        found: NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
        return found

    def answer_one(self, outputs: list[float]) -> Any:
        """The probabilities (classes,), or that of the second of two classes, whose outputs are given as their difference."""
        if len(outputs) > 1:
            powers = np.exp(np.array(outputs) - max(outputs))
            return powers / powers.sum()
        return 1.0 / (1.0 + math.exp(-outputs[0])) if outputs[0] > -700.0 else 0.0

    def chosen(self, answer: NDArray[np.float64]) -> NDArray[Any]:
        """What `predict` returns for answers: the most probable classes."""
        found: NDArray[Any] = self.names[answer.argmax(1)]
        return found

    def losses(self, y: NDArray[Any], answer: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log loss of each answer."""
        found: NDArray[np.float64] = -np.log(np.maximum(answer[np.arange(len(y)), y], 1e-12))
        return found

    def scores(self, y: NDArray[Any], answer: NDArray[np.float64]) -> dict[str, float]:
        """Scores of answers for encoded targets, by name: AUROC and AUPRC, which need all classes, accuracy and log loss."""
        found: dict[str, float] = {}
        labels = np.arange(answer.shape[1])
        if len(np.unique(y)) == len(labels) == 2:
            found["auroc"] = float(metrics.roc_auc_score(y, answer[:, 1]))
            found["auprc"] = float(metrics.average_precision_score(y, answer[:, 1]))
        elif len(np.unique(y)) == len(labels):
            p = answer / answer.sum(1, keepdims=True)
            found["auroc"] = float(metrics.roc_auc_score(y, p, multi_class="ovr", labels=labels))
        found["accuracy"] = float((answer.argmax(1) == y).mean())
        found["log_loss"] = float(metrics.log_loss(y, answer, labels=labels))
        return found


@dataclass(frozen=True)
class Number:
    """Targets that are numbers, with their centre and spread. A part of a saved model's configuration."""

    center: Annotated[float, Between(-LARGEST_TARGET, LARGEST_TARGET)]
    spread: Annotated[float, Between(sys.float_info.min, LARGEST_TARGET)]

    stratified: ClassVar[bool] = False

    @classmethod
    def of(cls, found: Targets) -> Self:
        """Measured on the targets; a ValueError if they are no numbers, not finite or too large."""
        known = np.sort(numbers(found))
        center, spread = center_and_spread(known)
        return cls(center, spread if spread > 1e-9 * float(np.abs(known).max(initial=0.0)) else 1.0)

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    @property
    def columns(self) -> list[Any]:
        """The name of the column of answers."""
        return ["prediction"]

    def fields(self) -> dict[str, Any]:
        """Centre and spread."""
        return {"center_": self.center, "spread_": self.spread}

    def encode(self, found: Targets) -> NDArray[np.float64]:
        """Scaled numbers."""
        return (found.filled(numbers(found), np.float64) - self.center) / self.spread

    def objective(self, y: NDArray[Any], weight: Any) -> Objective:
        """The squared error."""
        return Objective()

    def answer(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers in the unit of the targets."""
        return outputs * self.spread + self.center

    def answer_one(self, outputs: list[float]) -> Any:
        """The number from one output."""
        return outputs[0] * self.spread + self.center

    def chosen(self, answer: NDArray[np.float64]) -> NDArray[Any]:
        """The numbers."""
        return answer

    def losses(self, y: NDArray[Any], answer: NDArray[np.float64]) -> NDArray[np.float64]:
        """The squared error of each answer, in squared spreads."""
        found: NDArray[np.float64] = ((answer - self.center) / self.spread - y) ** 2
        return found

    def scores(self, y: NDArray[Any], answer: NDArray[np.float64]) -> dict[str, float]:
        """The coefficient of determination, root mean squared error and mean absolute error."""
        y = self.answer(y.astype(np.float64))
        # Numbers near 1e-200 are scaled by a power of two, which rounds nothing: their squares would be 0.
        exponent = int(np.frexp(max(np.abs(y).max(initial=0.0), np.abs(answer).max(initial=0.0)))[1])
        y, answer = np.ldexp(y, -exponent), np.ldexp(answer, -exponent)
        error = answer - y
        found = {} if len(y) < 2 else {"r2": float(metrics.r2_score(y, answer))}
        errors = {"rmse": np.sqrt((error**2).mean()), "mae": np.abs(error).mean()}
        return found | {name: float(np.ldexp(value, exponent)) for name, value in errors.items()}


Target = Classes | Number


@dataclass(frozen=True)
class Objective:
    """What is minimised in training and measured on held-out sequences, as a sum over all targets that count.

    Args:
        weights: of the classes, or None for equal weights.
    """

    weights: tuple[float, ...] | None = None

    def loss(self, answer: Tensor, batch: Batch) -> Tensor:
        """Cross entropy, or squared error."""
        weight = None if self.weights is None else torch.tensor(self.weights, dtype=answer.dtype, device=answer.device)
        return sum_of_losses(answer, batch, weight=weight)

    def score(self, answer: Tensor, batch: Batch) -> Tensor:
        """The loss: unlike a rank or a share of correct answers it is a sum, and fine enough to compare epochs by."""
        return self.loss(answer, batch)


def class_weights(weight: Any, classes: NDArray[Any], encoded: NDArray[np.int64]) -> tuple[float, ...] | None:
    """The weight of each class, with mean 1 over the targets; None for equal weights."""
    if weight is None:
        return None
    counts = np.bincount(encoded, minlength=len(classes))
    if isinstance(weight, str):
        check.choice("class_weight", weight, ("balanced",))
        raw = len(encoded) / (len(classes) * np.maximum(counts, 1))  # a class may be missing in this part of the sequences
    elif isinstance(weight, Mapping):
        unknown_names = [name for name in weight if name not in classes.tolist()]
        if unknown_names:
            raise ValueError(f"class_weight must have classes of y, {classes.tolist()}, got {unknown_names[0]!r}.")
        for name, value in weight.items():
            check.number(f"class_weight of {name!r}", value, low=0.0, high=1e30)
        raw = np.array([float(weight.get(name, 1.0)) for name in classes.tolist()])
    else:
        raise TypeError(f"class_weight must be None, 'balanced' or a dict of classes, got {check.kind(weight)}.")
    if not (raw * counts).sum() > 0:
        raise ValueError(f"class_weight must have a class above 0, got {raw.tolist()}.")
    return tuple((raw * len(encoded) / (raw * counts).sum()).tolist())


def numbers(found: Targets) -> NDArray[np.float64]:
    """The known targets as float64; a ValueError for text, and for numbers that are not finite or too large."""
    known = found.known()
    if known.dtype.kind not in NUMBERS + "O":
        raise ValueError(f"targets must be numbers, got {known[0]!r}. For classes use PhasedClassifier, or --task classes.")
    made = np.array([check.as_float(number) for number in known] if known.dtype.kind == "O" else known, np.float64)
    if not np.isfinite(made).all():
        raise ValueError("targets must be finite, got infinity. Leave out such sequences.")
    large = np.abs(made).max(initial=0.0)
    if large > LARGEST_TARGET:
        raise ValueError(f"targets must be from {-LARGEST_TARGET:g} to {LARGEST_TARGET:g}, got {large:g}. Divide y by a number.")
    return made


def as_array(y: Any) -> NDArray[Any]:
    """Targets as an array. NaN and numbers in a list with text stay what they are, where numpy makes text of them."""
    if isinstance(y, str):
        raise TypeError(f"targets must be a list or an array of targets, got the text {y!r}.")
    found = np.asarray(y)
    if found.dtype.kind != "U" or isinstance(y, np.ndarray):
        return found
    kept = np.empty(found.shape, object)
    kept[...] = y
    return kept if unknown(kept).any() else found


def ragged(y: Any) -> bool:
    """Whether y has an array for each sequence."""
    first = y[0] if isinstance(y, (list, tuple)) and len(y) else y.flat[0] if isinstance(y, np.ndarray) and y.size else None
    return isinstance(first, (list, tuple, np.ndarray)) and not isinstance(first, str)


def unknown(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which targets are NaN, None or pandas' NA; a ValueError for numbers and text together."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values), bool)
    if values.dtype.kind == "O":
        lost = np.array([is_lost(value) for value in values], bool)
        text = [isinstance(value, str) for value in values[~lost]]
        if any(text) and not all(text):
            number, word = values[~lost][text.index(False)], values[~lost][text.index(True)]
            raise ValueError(
                f"targets must be all numbers or all text, got {number!r} and {word!r}. Convert the numbers to text."
            )
        return lost
    return np.zeros(values.shape, bool)


def is_lost(value: Any) -> bool:
    """Whether a target is not known."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal nor different
        return True


def check_count(events: Events, count: int) -> None:
    """A ValueError unless there are as many targets as sequences."""
    if count != len(events):
        raise ValueError(
            f"targets must be given for each of the {len(events)} sequences, or for each of their {len(events.time)} steps, "
            f"got {count}. X.labels() aligns a table of labels with X."
        )


def check_name(events: Events, name: Any) -> None:
    """A ValueError if the target has the name of an input."""
    if isinstance(name, str) and name in (*events.variables, *events.statics):
        raise ValueError(f"the target must not be among the inputs, got {name!r} as both. Leave it out of X.")


def check_copies(events: Events, found: Targets) -> None:
    """A ValueError if a static variable, or with a target per step any variable of numbers, is the target itself."""
    text = found.y.dtype.kind in "UO"
    if found.y.dtype.kind not in NUMBERS + "UO" or (text and found.counts is not None) or len(np.unique(found.known())) < 2:
        return
    if found.counts is None:
        y = found.y if text else found.y.astype(np.float64)
        for name, column in zip(events.statics, events.static.T, strict=True):
            own = y == name.partition("=")[2] if text and name in events.settings.indicators else y
            if np.array_equal(column, own) and own.any():
                raise copied(events, name, f"static {name!r} equal to y everywhere. Leave it out")
        return
    known = found.known()
    steps = events.by_variable(events.step), events.by_variable(events.value)
    for name, at, values in zip(events.variables, *steps, strict=True):
        if len(at) >= len(known):
            value = np.full(len(found.y), np.nan)
            value[at] = values
            if np.array_equal(value[found.counts], known):
                raise copied(events, name, f"{name!r} equal to y at every step. Predict its next value, or leave it out")


def copied(events: Events, name: str, how: str) -> ValueError:
    """The error about a variable that is the target itself."""
    names = listed(events.settings.in_table([name]))
    return ValueError(f"the target must not be among the inputs, got {how} (drop: {names}).")
