"""Targets: one for each sequence or one for each step, checked against the sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased import check
from phased.estimator.events import Events
from phased.estimator.ragged import by_variable

LARGEST_TARGET = 1e150  # so that squares are finite


class Targets(NamedTuple):
    """Targets in the order of the sequences.

    Args:
        y: (n,), or (steps,) with one target per step.
        counts: None with one target per sequence; else (steps,) bool, False where a target is not known.
    """

    y: NDArray[Any]
    counts: NDArray[np.bool_] | None

    def known(self) -> NDArray[Any]:
        """The targets that are known."""
        return self.y if self.counts is None else self.y[self.counts]


def targets(events: Events, y: Any) -> Targets:
    """The targets as given to `fit`: (n,), (steps,), or one array for each sequence, whose NaN mean "not known"."""
    check_name(events, getattr(y, "name", None))
    if ragged(y):
        given = [as_array(part) for part in y]
        check_count(events, len(given))
        for sequence, (part, steps) in enumerate(zip(given, events.lengths, strict=True)):
            if part.shape != (steps,):
                raise ValueError(
                    f"y must have a target for each of the {steps} steps of sequence {events.ids[sequence].item()!r}, got shape "
                    f"{part.shape}. Leave NaN where there is none."
                )
        kinds = {part.dtype.kind in "UO" for part in given if len(part)}
        return per_step(np.concatenate([part.astype(object) for part in given] if len(kinds) > 1 else given))
    flat = as_array(y)
    if flat.ndim != 1:
        raise ValueError(f"y must have one dimension, got shape {flat.shape}. Pass y.ravel(), or fit a model for each column.")
    if len(flat) != len(events) and len(flat) == len(events.time):
        return per_step(flat)
    check_count(events, len(flat))
    lost = unknown(flat)
    if lost.any():
        at = int(lost.argmax())
        which = events.ids[at].item()
        raise ValueError(f"y must be known for every sequence, got {flat[at]} for {which!r}. Leave out such sequences.")
    return Targets(flat, None)


def as_array(y: Any) -> NDArray[Any]:
    """Targets as an array. NaN and numbers in a list with text stay what they are, where numpy makes text of them."""
    if isinstance(y, str):
        raise TypeError(f"y must be a list or an array of targets, got the text {y!r}.")
    found = np.asarray(y)
    if found.dtype.kind != "U" or isinstance(y, np.ndarray):
        return found
    kept = np.empty(found.shape, object)
    kept[...] = y
    return kept if unknown(kept).any() else found


def per_step(flat: NDArray[Any]) -> Targets:
    """One target per step; NaN and None are not known."""
    counts = ~unknown(flat)
    if not counts.any():
        raise ValueError("y must have a known target at one step at least, got none.")
    return Targets(flat, counts)


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
            raise ValueError(f"y must be all numbers or all text, got {number!r} and {word!r}. Convert y with y.astype(str).")
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
            f"y must have a target for each of the {len(events)} sequences, or for each of their {len(events.time)} steps, "
            f"got {count}. X.labels() aligns a table of labels with X."
        )


def check_name(events: Events, name: Any) -> None:
    """A ValueError if the target has the name of an input."""
    if isinstance(name, str) and name in (*events.variables, *events.statics):
        raise ValueError(f"the target must not be among the inputs, got {name!r} as both. Leave it out of X.")


def check_copies(events: Events, found: Targets) -> None:
    """A ValueError if a static variable, or with a target per step any variable of numbers, is the target itself."""
    text = found.y.dtype.kind in "UO"
    if found.y.dtype.kind not in "biufUO" or (text and found.counts is not None) or len(np.unique(found.known())) < 2:
        return
    y = found.y if text else found.y.astype(np.float64)
    if found.counts is not None:
        step = by_variable(events, np.repeat(np.arange(len(events.time)), np.diff(events.entry)))
        for name, steps, values in zip(events.variables, step, by_variable(events, events.value), strict=True):
            value = np.full(len(y) if len(steps) >= found.counts.sum() else 0, np.nan)
            if not len(value):  # not measured at every step with a target
                continue
            value[steps] = values
            if np.array_equal(value[found.counts], y[found.counts]):
                raise ValueError(
                    f"the target must not be among the inputs, got {name!r} equal to y at every step. Predict its next "
                    f"value, or leave it out: Events.read(..., drop={list(events.settings.in_table([name]))})."
                )
        return
    for name, column in zip(events.statics, events.static.T, strict=True):
        own = y == name.partition("=")[2] if text and name in events.settings.indicators else y
        if np.array_equal(column, own) and own.any():
            raise ValueError(
                f"the target must not be among the inputs, got static {name!r} equal to y everywhere. Leave it out: "
                f"Events.read(..., drop={list(events.settings.in_table([name]))})."
            )


def class_weights(weight: Any, classes: NDArray[Any], encoded: NDArray[np.int64]) -> tuple[float, ...] | None:
    """The weight of each class, with mean 1 over the targets; None for equal weights."""
    if weight is None:
        return None
    counts = np.bincount(encoded, minlength=len(classes))
    if isinstance(weight, str):
        check.choice("class_weight", weight, ("balanced",))
        raw = len(encoded) / (len(classes) * counts)
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
