"""Figures 3 and 4a: is the period of a sine wave, or of each of two, in its target range? The samples come in three ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from phased.learn.batch import Array, Batch, Split, generator, padded
from phased.learn.loop import Training
from phased_lab.runs.descriptor import (
    BN_LSTM,
    LSTM,
    PHASED,
    Claim,
    Clock,
    Events,
    Experiment,
    Option,
    Words,
    random_clock,
)
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run

Condition = Literal["standard", "high", "asynchronous"]
Source = Literal["paper", "authors"]
CONDITIONS: tuple[str, ...] = get_args(Condition)
SOURCES: tuple[str, ...] = get_args(Source)

RATE = {"standard": 1, "high": 10}  # samples per millisecond
TARGETS = ((5.0, 6.0), (13.0, 15.0))  # ms: target ranges of the periods of the first and of the second wave
SHORTEST, LONGEST = 1.0, 100.0  # ms: the range of all periods
STREAM = 0x51E5  # identifies this task's random numbers


@dataclass(frozen=True)
class Sines:
    """The frequency task; y is 1 where every wave's period is in its target range. All times are in ms.

    How we read the paper: "U(1,5) u U(6,100)" is uniform over the union of both intervals. The number of samples n and the
    duration are both U(15,125). "Standard" is n samples in n ms, "high" 10 n samples in n ms, "asynchronous" n samples at random
    times within a duration that is drawn independently.
    """

    condition: Condition = "asynchronous"
    waves: int = 1  # or 2
    # "authors": periods of the other class are log-uniform over all periods, including, rarely, the target range.
    periods: Source = "paper"
    points: tuple[int, int] = (15, 125)
    duration: tuple[float, float] = (15.0, 125.0)
    features: ClassVar[int] = 1  # the amplitude
    classes: ClassVar[int] = 2  # inside the target range, or outside

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Draw sequences, half of them targets, with a period, phase, duration and start per sequence."""
        random = generator(STREAM, seed, split, epoch, index, size)
        wanted = random.permutation(np.arange(size) % 2 == 1)
        periods, phases = self.draw_periods(random, wanted), random.uniform(0.0, 2 * np.pi, (self.waves, size))
        time, lengths = self.draw_times(random, size)
        values = np.sin(2 * np.pi * time / periods[:, None] + phases[:, None]).sum(0)
        low, high = self.targets
        y = ((low <= periods) & (periods <= high)).all(0)
        return padded(values[..., None], time, lengths, y.astype(np.int64))

    @property
    def targets(self) -> Array:
        """The ends of the target range of each wave's period: (2, waves, 1)."""
        return np.array(TARGETS[: self.waves]).T[..., None]

    def draw_periods(self, random: np.random.Generator, wanted: NDArray[np.bool_]) -> Array:
        """The waves' periods, (waves, B): in the target ranges where wanted, elsewhere from the law of the other class."""
        shape, (low, high) = (self.waves, len(wanted)), self.targets
        inside = random.uniform(low, high, shape)
        if self.periods == "authors":
            others = np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST), shape))
        else:  # uniform outside the target range: drawn from a shorter interval, then moved past the range
            others = random.uniform(SHORTEST, LONGEST - (high - low), shape)
            others += np.where(others >= low, high - low, 0.0)
        return np.where(wanted, inside, others)

    def draw_times(self, random: np.random.Generator, size: int) -> tuple[Array, NDArray[np.int64]]:
        """Sample times (T, B) and lengths (B,) of the sequences; times of padding are undefined."""
        points = random.integers(*self.points, size=size, endpoint=True)
        if self.condition != "asynchronous":
            rate = RATE[self.condition]
            start = random.uniform(0.0, self.points[1] - points)
            return start + np.arange(rate * points.max())[:, None] / rate, rate * points
        duration = random.uniform(*self.duration, size)
        start = random.uniform(0.0, self.duration[1] - duration)
        places = random.random((points.max(), size))
        places[np.arange(len(places))[:, None] >= points] = 1.0  # padding is sorted to the end
        return start + duration * np.sort(places, axis=0), points


DURATION = 125.0  # ms: the last sample of any wave is earlier
PERIODS = {"periods": Option("The law of the waves' periods.", SOURCES)}
LEARNED = "r_on learned from 0.05, leak 0"  # common to the studies beyond the figure
DATA = {"": "waves as in the paper's text", "authors": "waves as in the authors' code"}


def clock(record: Record) -> Clock:
    """Sample times of a run's condition."""
    if record.condition == "standard":
        return Clock(np.arange(0.0, DURATION), "ms", "a sample every 1 ms")
    if record.condition == "high":
        # A quarter of the duration: more samples could not be distinguished in a figure.
        return Clock(np.arange(0.0, DURATION / 4, 0.1), "ms", "a sample every 0.1 ms")
    return random_clock(DURATION, int(DURATION), "ms")


def wave(count: int) -> Events:
    """A wave with a period of 5.5 ms, sampled at random times."""
    time = np.cumsum(2 * np.random.default_rng(0).random(count))
    return Events(np.sin(2 * np.pi * time / 5.5)[:, None].astype(np.float32), time)


def choose(run: Run, options: Mapping[str, str]) -> Run:
    """The run with the scale's law of periods or, under a name of its own, with another."""
    task: Any = run.task
    source = options.get("periods", task.periods)
    data = "" if source == "paper" else source
    other: dict[str, Any] = {} if source == task.periods else {"option_tag": source, "options": {"periods": source}}
    return run.vary(task={"periods": source}, data=data, **other)


QUESTION = "Is the period of a wave between 5 and 6 ms? Its samples come at random times."
DEMO: dict[str, Any] = {
    "network": {"units": 64, "leak": 0.0},
    "training": {"epochs": 24, "train": 3000, "rate": 3e-3},
}


def demo_runs() -> list[Run]:
    """The three networks of `phased demo`: seconds, with fewer units and a higher learning rate."""
    base = choose(FREQUENCY.at("quick"), {"periods": "paper"}).vary(study="frequency", variant="demo", **DEMO)
    return [base.vary(tag="leak0-demo"), *baselines(base, tag="demo")]


FREQUENCY = Experiment(
    name="frequency",
    number="Fig. 3",
    title="Frequency discrimination",
    place=30,
    # The settings of the paper's text.
    base=Run("frequency", "asynchronous", "paper", Sines(), NetworkConfig(), Training(epochs=70)),
    # About three minutes on two cores. Random times and the authors' waves show a difference between the networks in few
    # epochs. In the authors' code periods close to the target range are more frequent, and LSTMs are less accurate.
    quick={"task": {"periods": "authors"}, "training": {"epochs": 25}},
    options=PERIODS,
    choose=choose,
    models=(PHASED, BN_LSTM, LSTM),
    conditions={
        "standard": Words("standard, every 1 ms", "standard"),
        "high": Words("high resolution, every 0.1 ms", "high resolution"),
        "asynchronous": Words("asynchronous", "asynchronous"),
    },
    data=DATA,
    chance=0.5,  # two balanced classes
    finding="the Phased LSTM stays accurate however the waves are sampled; LSTM and BN-LSTM drop when samples come ten times "
    "as often or at random times.",
    # Read off the authors' published plots, after the last epoch, to about half a percentage point.
    claims={
        (model, condition): Claim(value, value, epochs=70)
        for model, values in (("phased", (0.991, 0.996, 0.98)), ("bn-lstm", (0.99, 0.62, 0.74)), ("lstm", (0.89, 0.52, 0.69)))
        for condition, value in zip(CONDITIONS, values, strict=True)
    },
    charts=("bars", "learning", "updates", "gates"),
    updates_of=("frequency", "sparsity"),
    clock=clock,
)


def baselines(run: Run, **changes: object) -> Iterator[Run]:
    """The run with a BN-LSTM and with an LSTM."""
    return (run.vary(network={"model": model}, **changes) for model in ("bn-lstm", "lstm"))


def every_model(run: Run) -> Iterator[Run]:
    """The run with the Phased LSTM, with the paper's leak and with 0, and with the others."""
    for leak in run.pick(paper=(1e-3, 0.0), quick=(0.0,)):
        yield run.vary(network={"leak": leak}, variant=f"leak {leak:g}", tag=f"leak{leak:g}")
    yield from baselines(run)


def sampled(run: Run, **changes: object) -> Iterator[Run]:
    """The run under each condition of its scale. Random times show a difference between the networks in few epochs."""
    for condition in run.pick(paper=CONDITIONS, quick=("asynchronous",)):
        yield run.vary(condition=condition, task={"condition": condition}, **changes)


def unleaking(run: Run, words: str, tag: str, **network: Any) -> Run:
    """The run of a Phased LSTM without a leak, at which closed units are not computed, of a study beyond the figure."""
    return run.vary(network={"leak": 0.0} | network, variant=words, tag=f"leak0-{tag}")


@FREQUENCY.study("Figure 3: waves classified by their period, under three ways of sampling")
def frequency(run: Run) -> Iterator[Run]:
    """Every model under every condition; the Phased LSTM with the paper's leak, and with 0."""
    for each in sampled(run):
        yield from every_model(each)


@FREQUENCY.study("accuracy against updates: open ratios fixed, or learned at a price")
def sparsity(run: Run) -> Iterator[Run]:
    """Accuracy against updates at random times: fixed open ratios, and learned ones with an openness cost; all without a leak."""
    for ratio in run.pick(paper=(0.05, 0.1, 0.2), quick=(0.05,)):
        yield unleaking(run, f"r_on {ratio:g} fixed, leak 0", f"ratio{ratio:g}", ratio_on=ratio, learn_ratio_on=False)
    for price in run.pick(paper=(0.1, 0.3, 0.4, 1.0), quick=(0.3,)):
        each = unleaking(run, f"{LEARNED}, openness cost {price:g}", f"price{price:g}")
        yield each.vary(training={"openness_cost": price})


@FREQUENCY.study("Figure 3 with periods that start as the paper's text has it")
def ranges(run: Run) -> Iterator[Run]:
    """The Phased LSTM with initial periods as in the paper's text, without a leak."""
    for each in sampled(run):
        yield unleaking(each, f"{LEARNED}, period exp U(0, 3)", "exp0to3", period=(0.0, 3.0))


@FREQUENCY.study("Figure 3 with peepholes, as the authors' code has them")
def peepholes(run: Run) -> Iterator[Run]:
    """The Phased LSTM with peepholes, as in the authors' code, without a leak."""
    for each in sampled(run):
        yield unleaking(each, f"{LEARNED}, peepholes", "peepholes", peephole=True)


@FREQUENCY.study("Figure 3 with weights drawn at first as in the authors' code")
def weights(run: Run) -> Iterator[Run]:
    """Every model, with initial weights as in the authors' code; the Phased LSTM without a leak."""
    drawn = "initial weights N(0, 0.1)"
    for each in sampled(run, network={"weights": "normal"}):
        yield unleaking(each, f"{LEARNED}, {drawn}", "normal")
        yield from baselines(each, variant=drawn, tag="normal")


@FREQUENCY.study("the BN-LSTM that normalises the input-to-hidden term")
def normalisation(run: Run) -> Iterator[Run]:
    """The BN-LSTM of the work the paper cites, which normalises the input-to-hidden term."""
    network = {"model": "bn-lstm", "normalise": "term"}
    yield from sampled(run, network=network, variant="normalises the input-to-hidden term", tag="term")


# As in the authors' code: shorter durations, more samples, and another law of periods.
AUTHORS = Sines(waves=2, periods="authors", points=(100, 1000), duration=(1.0, 100.0))


def choose_both(run: Run, options: Mapping[str, str]) -> Run:
    """The run, with all settings of the authors' code for the waves if their periods are chosen."""
    if options.get("periods") != "authors":
        return run
    return run.vary(task=AUTHORS, data="authors", option_tag="authors", options={"periods": "authors"})


SUPERIMPOSED = Experiment(
    name="superimposed",
    number="Fig. 4a",
    title="Two superimposed waves",
    place=41,
    # The settings of Figure 3 where the paper gives no others.
    base=Run("superimposed", "superimposed", "paper", Sines(waves=2), NetworkConfig(), Training(epochs=300)),
    quick={"training": {"epochs": 20}},  # enough to see which networks begin to learn
    options=PERIODS,
    choose=choose_both,
    models=(PHASED, BN_LSTM, LSTM),
    conditions={"superimposed": Words("two waves, asynchronous", "two waves")},
    data=DATA,
    chance=0.5,  # two balanced classes
    finding="the Phased LSTM learns fast and with little variance; the others stay near chance.",
    # Read off the authors' published plots, after the last epoch.
    claims={
        (model, "superimposed"): Claim(low, high, epochs=300)
        for model, low, high in (("phased", 0.93, 0.94), ("bn-lstm", 0.50, 0.60), ("lstm", 0.50, 0.60))
    },
    charts=("learning", "updates", "gates"),
    clock=clock,
)


@SUPERIMPOSED.study("Figure 4a: two waves at once")
def superimposed(run: Run) -> Iterator[Run]:
    """Every model; the Phased LSTM with the paper's leak, and with 0."""
    return every_model(run)
