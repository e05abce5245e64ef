"""Figure 4b: the sum of two marked numbers of about 500, for four ranges of periods."""

from typing import Any

import numpy as np

from phased.experiments.descriptor import PHASED, Clock, Experiment, Study, Words
from phased.experiments.record import Record
from phased.paper.adding import runs

STEPS = 500  # of a sequence, where a record does not say
MOST_STEPS = 1000  # that a figure shows


def clock(record: Record) -> Clock:
    """As many steps as a run's sequences have in the mean."""
    task = record.settings.get("task")
    steps = mean_length(task.get("length") if isinstance(task, dict) else None)
    return Clock(np.arange(float(steps)), "step", f"{steps} steps")


def mean_length(lengths: Any) -> int:
    """The mean of a shortest and a longest sequence, as far as a figure can show it; a record's settings may hold anything."""
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
    # Of a network that knows neither number, and of one that knows one of the two: each is uniform on (-0.5, 0.5), with
    # variance 1/12.
    levels={"knowing neither number": 1 / 6, "knowing one of the two": 1 / 12},
    finding="the longer the periods, the faster it learns.",
    charts=("learning", "gates"),
    clock=clock,
)
