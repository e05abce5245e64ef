"""Figure 3: sine waves classified by their period, sampled in three ways; and further studies on the same waves."""

from __future__ import annotations

import numpy as np

from phased_lab.paper.frequency import runs
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
    Study,
    Words,
    random_clock,
)
from phased_lab.runs.record import Record

DURATION = 125.0  # ms: the last sample of any wave is earlier
PERIODS = {"periods": Option("The law of the waves' periods.", ("paper", "authors"))}
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


EXPERIMENT = Experiment(
    name="frequency",
    number="Fig. 3",
    title="Frequency discrimination",
    place=30,
    studies=(
        Study("frequency", "Figure 3: waves classified by their period, under three ways of sampling", runs.runs, PERIODS),
        Study("sparsity", "accuracy against updates: open ratios fixed, or learned at a price", runs.sparsity, PERIODS),
        Study("ranges", "Figure 3 with periods that start as the paper's text has it", runs.ranges, PERIODS),
        Study("peepholes", "Figure 3 with peepholes, as the authors' code has them", runs.peepholes, PERIODS),
        Study("weights", "Figure 3 with weights drawn at first as in the authors' code", runs.weights, PERIODS),
        Study("normalisation", "the BN-LSTM that normalises the input-to-hidden term", runs.normalisation, PERIODS),
    ),
    demo=Demo(runs.demo, "Is the period of a wave between 5 and 6 ms? Its samples come at random times.", wave),
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
