"""Figure 4b: the sum of two marked numbers of about 500, for four ranges of periods."""

from typing import Any

import numpy as np

from phased_lab.paper.adding import runs
from phased_lab.runs.descriptor import PHASED, Clock, Experiment, Study, Words
from phased_lab.runs.record import Record

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


EXPERIMENT = Experiment(
    name="adding",
    number="Fig. 4b",
    title="Adding task",
    place=42,
    studies=(Study("adding", "Figure 4b: a long memory, and what longer periods do for it", runs.runs),),
    models=(PHASED,),
    conditions={
        f"exp({low:g},{high:g})": Words(f"period exp U({low:g}, {high:g})", f"period exp U({low:g}, {high:g})")
        for low, high in runs.PAPER.ranges
    },
    metric="error",
    # The error of the best guess without either number, and with one of the two. Each number is uniform on (-0.5, 0.5), with
    # variance 1/12.
    levels={"knowing neither number": 1 / 6, "knowing one of the two": 1 / 12},
    finding="the longer the periods, the faster it learns.",
    charts=("learning", "gates"),
    clock=clock,
)
