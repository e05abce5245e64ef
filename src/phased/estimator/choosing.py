"""Choosing between trained networks by their losses on the held-out sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from phased.estimator.batches import EventTask, Indices, Sequences
from phased.estimator.convolutions import convolve
from phased.estimator.gates import Opening
from phased.estimator.network import MIX, Network, Part
from phased.estimator.ragged import gather
from phased.estimator.scaling import Scaling
from phased.estimator.targets import Number, Target
from phased.estimator.training import Course, answers

FOLLOWS = 0.75
"""Part of the target's variance. A target counts as a later value of a variable if their difference varies by less."""


class Trained(NamedTuple):
    """A trained network with its task, the course of the training, and the share of updates on the training sequences."""

    network: Network
    task: EventTask
    course: Course
    share: float


class Candidate(NamedTuple):
    """A trained model with one opening of the gates, the scores, and the loss of each held-out sequence."""

    opening: Opening
    part: Part
    trained: Trained
    scores: dict[str, float]
    losses: NDArray[np.float64]

    @classmethod
    def of(cls, opening: Opening, part: Part, trained: Trained, data: Sequences, test: Indices, target: Target) -> Self:
        """Test a model on the held-out sequences."""
        known, which = data.targets(test)
        owner = np.arange(len(test)) if data.counts is None else np.repeat(np.arange(len(test)), data.lengths[test])[which]
        answer = target.answer(answers(trained.network, data, test))[which]
        losses = np.bincount(owner, target.losses(known, answer), len(test)).astype(np.float64)
        return cls(opening, part, trained, target.scores(known, answer), losses)


def parts(first: Candidate, train: Indices, test: Indices, target: Target, seed: int) -> list[Candidate]:
    """Return candidates for each part that gives the answers, by rising cost. `first` answers by the recurrent network.

    The other candidates use random convolutions, and are tried only with one target per sequence. The network keeps the part that
    was tried last.
    """
    tried, network, data = [first], first.trained.network, first.trained.task.data
    if data.counts is None:
        network.answer_by("convolutions")
        data = convolve(network, data, train, target, seed)
        for part in (each for each in MIX if each != "network"):
            network.mix = MIX[part]
            tried.append(Candidate.of(first.opening, part, first.trained, data, test, target))
    return tried


def followed(data: Sequences, chosen: Indices, scaling: Scaling, target: Number) -> tuple[int, float, float] | None:
    """Find the variable with later values that are the targets of the steps, according to the training sequences.

    Returns:
        Index of the variable, and the factor and the constant that turn its scaled values into scaled targets of equal value.
        None with one target per sequence, or if no variable differs from the target by less than `FOLLOWS` demands.
    """
    if data.counts is None:
        return None
    steps = gather(data.offset, chosen)[0]
    steps = steps[data.counts.numpy()[steps]]
    y, values, found = data.y.numpy()[steps].astype(np.float64), scaling.values, None
    least = FOLLOWS * float(y.var())
    for variable in np.flatnonzero(np.array(scaling.numbers, bool) & (values.factor > 0) & (scaling.slopes == 0)).tolist():
        factor = 1 / (float(values.factor[variable]) * target.spread)
        with np.errstate(over="ignore", invalid="ignore"):  # values may be much larger than targets
            varies = float((y - factor * data.measured.last(variable, steps).astype(np.float64)).var())
        if varies < least:
            least, found = varies, (variable, factor, (float(values.center[variable]) - target.center) / target.spread)
    return found


def chosen(tried: Sequence[Candidate]) -> Candidate:
    """Return the candidate to keep. Later candidates cost more, so the loss must be lower by more than its standard error."""
    best = tried[0]
    for each in tried[1:]:
        if is_better(each.losses, best.losses):
            best = each
    return best


def is_better(losses: NDArray[np.float64], than: NDArray[np.float64]) -> bool:
    """Return whether the mean loss of the same sequences is lower by more than the standard error of the difference."""
    gained = than - losses
    return len(gained) > 1 and bool(gained.mean() > gained.std(ddof=1) / np.sqrt(len(gained)))
