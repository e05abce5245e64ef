"""What the paper and its authors report, in one place: the figures, who is in them, and the numbers read off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CITATION = "D. Neil, M. Pfeiffer, S.-C. Liu: Phased LSTM. NIPS 2016, arXiv:1610.09513"
SEEDS = 5  # of each bar and curve

Metric = Literal["accuracy", "error"]


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: an experiment, what is compared in it, and how it is measured."""

    experiment: str
    number: str
    title: str
    conditions: tuple[str, ...]
    models: tuple[str, ...]
    metric: Metric
    finding: str  # what the paper says of it, in our words

    @property
    def chance(self) -> float | None:
        """The accuracy of guessing: every task with an accuracy here has two balanced classes."""
        return 0.5 if self.metric == "accuracy" else None


@dataclass(frozen=True)
class Claim:
    """A number of the paper; `low` and `high` differ where its plot allows no finer reading."""

    low: float
    high: float
    epochs: int

    @property
    def value(self) -> float:
        """The middle of what can be read off."""
        return (self.low + self.high) / 2


FIGURES = (
    Figure(
        experiment="frequency",
        number="Fig. 3",
        title="Frequency discrimination",
        conditions=("standard", "high", "asynchronous"),
        models=("phased", "bn-lstm", "lstm"),
        metric="accuracy",
        finding="the Phased LSTM stays accurate however the waves are sampled; LSTM and BN-LSTM drop when samples come ten times "
        "as often or at random times.",
    ),
    Figure(
        experiment="superimposed",
        number="Fig. 4a",
        title="Two superimposed waves",
        conditions=("superimposed",),
        models=("phased", "bn-lstm", "lstm"),
        metric="accuracy",
        finding="the Phased LSTM learns fast and with little variance; the others stay near chance.",
    ),
    Figure(
        experiment="adding",
        number="Fig. 4b",
        title="Adding task",
        conditions=("exp(0,2)", "exp(2,4)", "exp(4,6)", "exp(6,8)"),
        models=("phased",),
        metric="error",
        finding="the longer the periods, the faster it learns.",
    ),
)

# Read off the authors' published plots, after the last epoch: good to about half a point where low and high are equal.
CLAIMS: dict[tuple[str, str, str], Claim] = {
    (experiment, model, condition): Claim(low, high, epochs)
    for experiment, model, condition, low, high, epochs in (
        ("frequency", "phased", "standard", 0.991, 0.991, 70),
        ("frequency", "phased", "high", 0.996, 0.996, 70),
        ("frequency", "phased", "asynchronous", 0.98, 0.98, 70),
        ("frequency", "bn-lstm", "standard", 0.99, 0.99, 70),
        ("frequency", "bn-lstm", "high", 0.62, 0.62, 70),
        ("frequency", "bn-lstm", "asynchronous", 0.74, 0.74, 70),
        ("frequency", "lstm", "standard", 0.89, 0.89, 70),
        ("frequency", "lstm", "high", 0.52, 0.52, 70),
        ("frequency", "lstm", "asynchronous", 0.69, 0.69, 70),
        ("superimposed", "phased", "superimposed", 0.93, 0.94, 300),
        ("superimposed", "bn-lstm", "superimposed", 0.50, 0.60, 300),
        ("superimposed", "lstm", "superimposed", 0.50, 0.60, 300),
    )
}

# The mean squared error on the adding task of one who knows neither number, and of one who knows one of the two:
# each is uniform on (-0.5, 0.5), with variance 1/12.
PLATEAUS = {"knowing neither number": 1 / 6, "knowing one of the two": 1 / 12}


def figure(experiment: str) -> Figure | None:
    """The paper's figure of an experiment, if it has one."""
    return next((figure for figure in FIGURES if figure.experiment == experiment), None)


def claim(experiment: str, model: str, condition: str) -> Claim | None:
    """The paper's number for a model under a condition, if it gives one."""
    return CLAIMS.get((experiment, model, condition))
