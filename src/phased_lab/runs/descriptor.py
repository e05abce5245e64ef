"""Descriptors of experiments: their runs, and their texts and numbers in commands, figures and the report page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from phased.classifier import Classifier
    from phased_lab.lipreader import LipReader
    from phased_lab.runs.record import Record
    from phased_lab.runs.run import Run

Array = NDArray[np.float64]
Metric = Literal["accuracy", "error"]
Quantity = Literal["metric", "whole", "updates"]
ChartName = Literal["bars", "loss", "learning", "updates", "gates"]


class Words(NamedTuple):
    """The label of a condition: full, and short where space is limited."""

    full: str
    short: str


class Kind(NamedTuple):
    """Type of network, with its name in records, its label and its colour in all figures."""

    name: str
    label: str
    colour: str = "#8a4f7d"  # the default is for networks without a descriptor
    recurrent: bool = True  # whether its units are updated at the steps of a sequence


# Distinguishable in every common form of colour blindness and in grey.
PHASED = Kind("phased", "Phased LSTM", "#d1495b")
BN_LSTM = Kind("bn-lstm", "BN-LSTM", "#2a7f9e")
LSTM = Kind("lstm", "LSTM", "#6b7178")


@dataclass(frozen=True)
class Claim:
    """Number of the paper after `epochs` epochs. `low` and `high` differ if the plot cannot be read more precisely."""

    low: float
    high: float
    epochs: int

    @property
    def value(self) -> float:
        """The middle of `low` and `high`."""
        return (self.low + self.high) / 2


class Printed(NamedTuple):
    """Number in a table of the paper with its deviation. With `above`, the paper gives only a lower bound."""

    value: float
    deviation: float | None = None
    above: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a table: one number of each kind of network.

    The number is the metric after an epoch, or one of a further test, if `evaluation` names one: its metric; with
    `quantity="whole"` the share of sequences without a mistake; with `quantity="updates"` the mean number of updates per unit and
    sequence.
    """

    label: str
    heading: str = ""  # of the rows with the same heading that follow each other
    epoch: int = 0  # 0 for the last epoch
    evaluation: str = ""
    quantity: Quantity = "metric"
    study: str = ""  # of the runs; "" for the study with the name of the experiment
    condition: str = ""  # of the runs; "" for any
    paper: Mapping[str, Printed] = field(default_factory=dict)  # the paper's numbers, by the name of the network


class Clock(NamedTuple):
    """Sample times (T,), their unit, and a description."""

    time: Array
    unit: str
    words: str


def random_clock(duration: float, samples: int, unit: str) -> Clock:
    """Random sample times, the same on every call."""
    time = np.sort(np.random.default_rng(0).uniform(0.0, duration, samples))
    return Clock(time, unit, f"{samples} samples at random times")


@dataclass(frozen=True)
class Option:
    """Option of a study, `--name VALUE` of `phased run`, with its help and the allowed values. () allows any value."""

    about: str
    values: tuple[str, ...] = ()


Runs = Callable[["Run"], Iterable["Run"]]


@dataclass(frozen=True)
class Study:
    """A set of runs that answers one question: `phased run <name>`.

    `runs` takes the base run of a scale, with a seed, and yields changed copies of it. The study with the name of its experiment
    is the paper's figure.
    """

    name: str
    about: str
    runs: Runs
    experiment: Experiment


class Drawn(NamedTuple):
    """Figures of an experiment without training, and its finding in one sentence.

    The figures are matplotlib's, by the names of their files without a suffix, or texts, by the names of their files.
    """

    figures: Mapping[str, Any]
    finding: str


class Events(NamedTuple):
    """The events of one sequence: features (N, D) float32, and times (N,)."""

    x: NDArray[np.float32]
    time: Array


@dataclass(frozen=True)
class Experiment:
    """One figure, table or claim of the paper, or a question beyond it.

    An experiment with training has `studies`, one without has `draw`. Only `name`, `title` and one of the two are required.
    """

    name: str
    title: str
    number: str = ""  # of the figure or equation in the paper, "Fig. 3"; "" beyond the paper
    place: int = 100  # its order on the page and in lists, ascending
    about: str = ""  # a line for `phased run`; not used if there are studies
    base: Run | None = None  # the run at the paper's scale from which the studies make theirs
    quick: dict[str, Any] = field(default_factory=dict)  # its changes at the quick scale, as in `Run.vary`
    options: Mapping[str, Option] = field(default_factory=dict)  # of the studies
    choose: Callable[[Run, Mapping[str, str]], Run] = lambda run, options: run  # the run of a scale with these options
    studies: list[Study] = field(default_factory=list)  # in the order of their definition; see `study`
    draw: Callable[[], Drawn] | None = None
    animate: Callable[[], Drawn] | None = None  # a moving picture

    models: Sequence[Kind] = ()
    conditions: Mapping[str, Words] = field(default_factory=dict)
    seeds: int = 5  # behind each line of the figure or column of the table
    beyond: Sequence[str] = ()  # conditions that the paper's figure does not have
    data: Mapping[str, str] = field(default_factory=dict)  # labels of the versions of the data; "" is the default version

    metric: Metric = "accuracy"
    tested: str = ""  # the modality of the test after each epoch, such as "with video alone"
    chance: float | None = None  # the metric of random guessing
    levels: Mapping[str, float] = field(default_factory=dict)  # further reference values of the metric, by their meaning

    finding: str = ""  # what the paper reports, in our words
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)  # the paper's numbers, by model and condition

    table: Sequence[Row] = ()  # a table of the paper: rows, with a column for each kind of network
    headings: str = "condition"  # what the headings of its rows name
    charts: Sequence[ChartName] = ("learning", "gates")
    # `phased pack`: a model from a run's record, its state_dict and the folder of its data, "" for PHASED_DATA.
    pack: Callable[[Record, Any, str], Classifier | LipReader] | None = None
    curves_of: Sequence[str] = ()  # studies with learning curves in the chart of the paper's figure
    updates_of: Sequence[str] = ()  # the studies in the chart of accuracy against updates; () for all
    # Makes what the runs are listed from, if that takes long: `phased run` calls it with the options of the study.
    prepare: Callable[[Mapping[str, str]], object] | None = None
    # Sample times like those of a run's training data.
    clock: Callable[[Record], Clock] = lambda record: random_clock(100.0, 100, "units of time")
    units: Callable[[Record], slice] = lambda record: slice(None)  # in figures of gates: not those that are open at every sample

    def study(self, about: str) -> Callable[[Runs], Runs]:
        """Make a study of this experiment of a function, with its name: `nmnist_real` is `phased run nmnist-real`."""

        def add(runs: Runs) -> Runs:
            self.studies.append(Study(runs.__name__.replace("_", "-"), about, runs, self))
            return runs

        return add

    def at(self, scale: str) -> Run:
        """The run of a scale, from which the studies make theirs."""
        assert self.base is not None
        return self.base.vary(scale=scale, **(self.quick if scale == "quick" else {}))

    @property
    def heading(self) -> str:
        """Its number in the paper and its title."""
        return f"{self.number}: {self.title}" if self.number else self.title

    def kind(self, model: str) -> Kind:
        """The kind of network of this name; a default one if there is none."""
        return next((kind for kind in self.models if kind.name == model), Kind(model, model))

    def condition(self, name: str, short: bool = False) -> str:
        """The label of a condition."""
        words = self.conditions.get(name, Words(name, name))
        return words.short if short else words.full

    def figure_runs(self) -> list[tuple[str, str]]:
        """Model and condition of every bar or curve in the paper's figure."""
        if not (self.number and self.studies):
            return []
        return [(kind.name, condition) for condition in self.conditions if condition not in self.beyond for kind in self.models]


def drawing(title: str, **descriptor: Any) -> Callable[[Callable[[], Drawn]], Experiment]:
    """Make an experiment without training of the function that draws it, with its name; further arguments as of `Experiment`."""
    return lambda function: Experiment(function.__name__, title, draw=function, **descriptor)


def write(draw: Callable[[], Drawn], folder: Path) -> tuple[list[Path], str]:
    """Draw, and write the figures into an existing folder. Returns the files and the finding."""
    from phased.pictures.save import save, save_text
    from phased.pictures.style import styled

    files: list[Path] = []
    with styled():
        figures, finding = draw()
        for name, figure in figures.items():
            files += [save_text(figure, folder, name)] if isinstance(figure, str) else save(figure, folder, name)
    return files, finding
