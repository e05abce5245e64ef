"""What an experiment says of itself: its runs, and all that commands, figures and the page need to know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased import check

if TYPE_CHECKING:
    from phased.experiments.record import Record
    from phased.experiments.run import Run

Array = NDArray[np.float64]
Metric = Literal["accuracy", "error"]
ChartName = Literal["bars", "learning", "updates", "gates"]
SEEDS = 5  # of each bar and curve of the paper


class Words(NamedTuple):
    """What a condition is called where people read it: in full, and where there is little room."""

    full: str
    short: str


class Kind(NamedTuple):
    """A kind of network: its name in records, what it is called, and its colour in every figure; None takes the next free one."""

    name: str
    label: str
    colour: str | None = None


# Distinguishable in every common form of colour blindness and in grey.
PHASED = Kind("phased", "Phased LSTM", "#d1495b")
BN_LSTM = Kind("bn-lstm", "BN-LSTM", "#2a7f9e")
LSTM = Kind("lstm", "LSTM", "#6b7178")


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


class Clock(NamedTuple):
    """Times at which samples come, (T,), their unit, and what they are in words."""

    time: Array
    unit: str
    words: str


def random_clock(duration: float, samples: int, unit: str) -> Clock:
    """Samples at random times, the same on every call."""
    time = np.sort(np.random.default_rng(0).uniform(0.0, duration, samples))
    return Clock(time, unit, f"{samples} samples at random times")


def hundred_random_times(record: Record) -> Clock:
    """A clock for layers of which nothing else is known."""
    return random_clock(100.0, 100, "units of time")


@dataclass(frozen=True)
class Option:
    """An option of a study, `--name VALUE` of `phased run`: what it does, and its values if they are few."""

    about: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """Runs that answer one question together: `phased run <name>`.

    `runs(scale, seeds, **options)` lists them. A study named like its experiment is the one that the paper's figure shows.
    """

    name: str
    about: str
    runs: Callable[..., list[Run]]
    options: Mapping[str, Option] = field(default_factory=dict)


class Drawn(NamedTuple):
    """The files that an experiment without training wrote, and its finding in one sentence."""

    files: list[Path]
    finding: str


class Events(NamedTuple):
    """Events of one sequence, for streams: features (N, D) float32, and their times (N,)."""

    x: NDArray[np.float32]
    time: Array


@dataclass(frozen=True)
class Demo:
    """What `phased demo` does with an experiment: trains a study at the quick scale, then streams events through its networks."""

    study: str
    question: str  # in one sentence, for people
    events: Callable[[int], Events]  # so many of them, always the same


@dataclass(frozen=True)
class Experiment:
    """One figure, table or claim of the paper, or one beyond it.

    What is trained has `studies`; what is only computed and drawn has `draw`. Only `name`, `title` and one of the two are needed.
    """

    name: str
    title: str
    number: str = ""  # in the paper: "Fig. 3"; "" beyond it
    place: int = 100  # on the page and in lists, from low to high
    about: str = ""  # a line for `phased run --help`; the studies' own take its place
    studies: Sequence[Study] = ()
    draw: Callable[[Path], Drawn] | None = None
    demo: Demo | None = None

    models: Sequence[Kind] = ()
    conditions: Mapping[str, Words] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)  # versions of the data in words; "" is the usual one

    metric: Metric = "accuracy"
    chance: float | None = None  # the metric of guessing
    levels: Mapping[str, float] = field(default_factory=dict)  # other values of the metric to compare with, by what they mean

    finding: str = ""  # what the paper says of it, in our words
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)  # the paper's numbers, by model and condition

    charts: Sequence[ChartName] = ("learning", "gates")
    updates_of: Sequence[str] = ()  # the studies in the chart of accuracy against updates; () for all of them
    clock: Callable[[Record], Clock] = hundred_random_times  # times like those a run was trained on

    def __post_init__(self) -> None:
        check.choice("metric", self.metric, ("accuracy", "error"))
        for chart in self.charts:
            check.choice("charts", chart, ("bars", "learning", "updates", "gates"))

    @property
    def heading(self) -> str:
        """Its number in the paper and its title."""
        return f"{self.number}: {self.title}" if self.number else self.title

    def label(self, model: str) -> str:
        """What a model is called."""
        return next((kind.label for kind in self.models if kind.name == model), model)

    def condition(self, name: str, short: bool = False) -> str:
        """A condition in words."""
        words = self.conditions.get(name, Words(name, name))
        return words.short if short else words.full

    def figure_runs(self) -> list[tuple[str, str]]:
        """Model and condition of every bar or curve in the paper's figure."""
        if not (self.number and self.studies):
            return []
        return [(kind.name, condition) for condition in self.conditions for kind in self.models]
