"""Held-out sequences: drawn at random, stratified by class, with sequences of one id on one side."""

from __future__ import annotations

from typing import Any

import numpy as np

from phased.estimator.events import Events
from phased.estimator.targets import Targets
from phased.estimator.task import Indices


def split(events: Events, found: Targets, share: float, random: Any, stratify: bool) -> tuple[Indices, Indices]:
    """Numbers of the sequences to train on and of those held out, in the order of their ids.

    So the order of the sequences in X changes nothing.
    """
    _, first, group = np.unique(events.ids, return_index=True, return_inverse=True)
    if len(first) < 2:
        raise ValueError(f"X must have at least 2 sequences with ids of their own, one of them to be held out, got {len(first)}.")
    strata = np.zeros(len(first), np.int64)
    if stratify and found.counts is None:
        _, classes = np.unique(found.y, return_inverse=True)
        strata = classes[first]
    held = np.zeros(len(first), bool)
    for stratum in np.unique(strata):
        members = random.permutation(np.flatnonzero(strata == stratum))
        held[members[: min(round(share * len(members)), len(members) - 1)]] = True
    if not held.any():
        held[random.permutation(len(held))[: max(1, round(share * len(held)))]] = True
    order = np.argsort(group, kind="stable")
    chosen = held[group][order]
    return order[~chosen], order[chosen]
