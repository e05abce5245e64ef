"""Choosing between trained networks by their losses on the held-out sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased.estimator.batches import EventTask
from phased.estimator.gates import Opening
from phased.estimator.network import Network
from phased.estimator.training import Course


class Trained(NamedTuple):
    """A trained network, its task, the course of the training, and the share of updates on the training sequences."""

    network: Network
    task: EventTask
    course: Course
    share: float


class Candidate(NamedTuple):
    """A trained network with one opening of the gates, its scores, and the loss of each held-out sequence."""

    opening: Opening
    trained: Trained
    scores: dict[str, float]
    losses: NDArray[np.float64]


def chosen(tried: Sequence[Candidate]) -> Candidate:
    """The candidate to keep, of candidates with rising costs: a later one only if its loss is lower by a standard error."""
    best = tried[0]
    for each in tried[1:]:
        if is_better(each.losses, best.losses):
            best = each
    return best


def is_better(losses: NDArray[np.float64], than: NDArray[np.float64]) -> bool:
    """Whether the mean loss of the same sequences is lower by more than the standard error of the difference."""
    gained = than - losses
    error = float(gained.std(ddof=1)) / np.sqrt(len(gained)) if len(gained) > 1 else 0.0
    return bool(gained.mean() > error)
