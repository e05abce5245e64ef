"""Figure 4b: the sum of two marked numbers of about 500, for four ranges of periods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from phased.learn.loop import Training
from phased_lab.paper.adding.task import Adding
from phased_lab.runs.descriptor import PHASED, Clock, Experiment, Words
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run

STEPS = 500  # per sequence, if a record does not have it
MOST_STEPS = 1000  # in a figure


def clock(record: Record) -> Clock:
    """A clock with the mean number of steps of a run's sequences."""
    task = record.settings.get("task")
    steps = mean_length(task.get("length") if isinstance(task, dict) else None)
    return Clock(np.arange(float(steps)), "step", f"{steps} steps")


def mean_length(lengths: Any) -> int:
    """The mean of the shortest and the longest length, at most MOST_STEPS; the default if the setting is not valid."""
    ends = lengths if isinstance(lengths, list | tuple) else [lengths]
    if not ends or not all(isinstance(end, int | float) and 2 <= end <= 1e9 for end in ends):
        return STEPS
    return min(round(float(np.mean(ends))), MOST_STEPS)


RANGES = ((0, 2), (2, 4), (4, 6), (6, 8))  # initial periods are exp U(a, b); a step is one unit of time
# The open ratio is fixed at 0.05: "the total number of updates remains approximately the same". The paper gives neither the
# number of epochs nor the learning rate. At 1e-3, in a preliminary test, one of three seeds with the longest periods had not
# converged after 100 epochs.
RUN = Run("adding", "exp(0,2)", "paper", Adding(), NetworkConfig(learn_ratio_on=False), Training(epochs=100, rate=2e-3))

ADDING = Experiment(
    name="adding",
    number="Fig. 4b",
    title="Adding task",
    place=42,
    scales={"paper": RUN, "quick": RUN.vary(scale="quick", training={"epochs": 20})},
    models=(PHASED,),
    conditions={
        f"exp({low:g},{high:g})": Words(f"period exp U({low:g}, {high:g})", f"period exp U({low:g}, {high:g})")
        for low, high in RANGES
    },
    metric="error",
    # The error of the best guess without either number, and with one of the two. Each number is uniform on (-0.5, 0.5), with
    # variance 1/12.
    levels={"knowing neither number": 1 / 6, "knowing one of the two": 1 / 12},
    finding="the longer the periods, the faster it learns.",
    charts=("learning", "gates"),
    clock=clock,
)


@ADDING.study("Figure 4b: a long memory, and what longer periods do for it")
def adding(run: Run) -> Iterator[Run]:
    """The Phased LSTM with each range of periods; quick has the shortest and the longest."""
    for low, high in run.pick(paper=RANGES, quick=(RANGES[0], RANGES[-1])):
        for leak in run.pick(paper=(1e-3, 0.0), quick=(0.0,)):
            yield run.vary(
                condition=f"exp({low:g},{high:g})",
                condition_tag=f"exp{low:g}to{high:g}",
                network={"period": (low, high), "leak": leak},
                variant=f"leak {leak:g}",
                tag=f"leak{leak:g}",
            )
