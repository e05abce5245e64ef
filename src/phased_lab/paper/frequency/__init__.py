"""Figure 3: sine waves classified by their period, sampled in three ways; and further studies on the same waves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from phased.learn.loop import Training
from phased_lab.paper.frequency.task import SOURCES, Sines
from phased_lab.runs.descriptor import (
    BN_LSTM,
    LSTM,
    PHASED,
    Claim,
    Clock,
    Demo,
    Events,
    Experiment,
    Option,
    Words,
    random_clock,
)
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run

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
    other: dict[str, Any] = {} if source == task.periods else {"tag": source, "options": {"periods": source}}
    return run.vary(task={"periods": source}, data=data, **other)


def tag(run: Run, *parts: str) -> str:
    """The tag of a run made of this one."""
    return "-".join((*parts, run.tag) if run.tag else parts)


DEMO: dict[str, Any] = {
    "network": {"units": 64, "leak": 0.0},
    "training": {"epochs": 24, "train": 3000, "rate": 3e-3},
}


def demo() -> list[Run]:
    """The three networks of `phased demo`: seconds, with fewer units and a higher learning rate."""
    base = choose(FREQUENCY.scales["quick"], {"periods": "paper"}).vary(study="frequency", variant="demo", **DEMO)
    return [
        base.vary(network={"model": "phased"}, tag=tag(base, "leak0", "demo")),
        *(base.vary(network={"model": model}, tag=tag(base, "demo")) for model in ("bn-lstm", "lstm")),
    ]


# The settings of Figure 3, as in the paper's text.
RUN = Run("frequency", "asynchronous", "paper", Sines(), NetworkConfig(), Training(epochs=70))

FREQUENCY = Experiment(
    name="frequency",
    number="Fig. 3",
    title="Frequency discrimination",
    place=30,
    # Quick is about three minutes on two cores. Random times and the authors' waves show a difference between the networks in few
    # epochs. In the authors' code periods close to the target range are more frequent, and LSTMs are less accurate.
    scales={"paper": RUN, "quick": RUN.vary(scale="quick", task={"periods": "authors"}, training={"epochs": 25})},
    options=PERIODS,
    choose=choose,
    demo=Demo(demo, "Is the period of a wave between 5 and 6 ms? Its samples come at random times.", wave),
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
        for model, condition, value in (
            ("phased", "standard", 0.991),
            ("phased", "high", 0.996),
            ("phased", "asynchronous", 0.98),
            ("bn-lstm", "standard", 0.99),
            ("bn-lstm", "high", 0.62),
            ("bn-lstm", "asynchronous", 0.74),
            ("lstm", "standard", 0.89),
            ("lstm", "high", 0.52),
            ("lstm", "asynchronous", 0.69),
        )
    },
    charts=("bars", "learning", "updates", "gates"),
    updates_of=("frequency", "sparsity"),
    clock=clock,
)


def sampled(run: Run, **changes: object) -> Iterator[Run]:
    """The run under each condition of its scale. Random times show a difference between the networks in few epochs."""
    for condition in run.pick(paper=("standard", "high", "asynchronous"), quick=("asynchronous",)):
        yield run.vary(condition=condition, task={"condition": condition}, **changes)


def unleaking(run: Run, words: str, tags: tuple[str, ...], network: dict[str, Any]) -> Run:
    """The run of a Phased LSTM without a leak, at which closed units are not computed, of a study beyond the figure."""
    return run.vary(network={"leak": 0.0} | network, variant=words, tag=tag(run, "leak0", *tags))


@FREQUENCY.study("Figure 3: waves classified by their period, under three ways of sampling")
def frequency(run: Run) -> Iterator[Run]:
    """Every model under every condition; the Phased LSTM with the paper's leak, and with 0."""
    for each in sampled(run):
        for leak in run.pick(paper=(1e-3, 0.0), quick=(0.0,)):
            yield each.vary(network={"leak": leak}, variant=f"leak {leak:g}", tag=tag(run, f"leak{leak:g}"))
        yield from (each.vary(network={"model": model}) for model in ("bn-lstm", "lstm"))


@FREQUENCY.study("accuracy against updates: open ratios fixed, or learned at a price")
def sparsity(run: Run) -> Iterator[Run]:
    """Accuracy against updates at random times: fixed open ratios, and learned ones with an openness cost; all without a leak."""
    for ratio in run.pick(paper=(0.05, 0.1, 0.2), quick=(0.05,)):
        network = {"ratio_on": ratio, "learn_ratio_on": False}
        yield unleaking(run, f"r_on {ratio:g} fixed, leak 0", (f"ratio{ratio:g}",), network)
    for price in run.pick(paper=(0.1, 0.3, 0.4, 1.0), quick=(0.3,)):
        each = unleaking(run, f"{LEARNED}, openness cost {price:g}", (f"price{price:g}",), {})
        yield each.vary(training={"openness_cost": price})


@FREQUENCY.study("Figure 3 with periods that start as the paper's text has it")
def ranges(run: Run) -> Iterator[Run]:
    """The Phased LSTM with initial periods as in the paper's text, without a leak."""
    for each in sampled(run):
        yield unleaking(each, f"{LEARNED}, period exp U(0, 3)", ("exp0to3",), {"period": (0.0, 3.0)})


@FREQUENCY.study("Figure 3 with peepholes, as the authors' code has them")
def peepholes(run: Run) -> Iterator[Run]:
    """The Phased LSTM with peepholes, as in the authors' code, without a leak."""
    for each in sampled(run):
        yield unleaking(each, f"{LEARNED}, peepholes", ("peepholes",), {"peephole": True})


@FREQUENCY.study("Figure 3 with weights drawn at first as in the authors' code")
def weights(run: Run) -> Iterator[Run]:
    """Every model, with initial weights as in the authors' code; the Phased LSTM without a leak."""
    drawn = "initial weights N(0, 0.1)"
    for each in sampled(run, network={"weights": "normal"}):
        yield unleaking(each, f"{LEARNED}, {drawn}", ("normal",), {})
        yield from (each.vary(network={"model": model}, variant=drawn, tag=tag(run, "normal")) for model in ("bn-lstm", "lstm"))


@FREQUENCY.study("the BN-LSTM that normalises the input-to-hidden term")
def normalisation(run: Run) -> Iterator[Run]:
    """The BN-LSTM of the work the paper cites, which normalises the input-to-hidden term."""
    network = {"model": "bn-lstm", "normalise": "term"}
    yield from sampled(run, network=network, variant="normalises the input-to-hidden term", tag=tag(run, "term"))
