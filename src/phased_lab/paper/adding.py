"""Figure 4b: of about 500 numbers two are marked, one early and one late; the label is their sum. Four ranges of periods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from phased.learn.batch import Batch, Split, generator, padded
from phased.learn.loop import Training
from phased_lab.runs.descriptor import PHASED, Clock, Experiment, Words
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run

STREAM = 0xADD  # identifies this task's random numbers


@dataclass(frozen=True)
class Adding:
    """Numbers from U(-0.5, 0.5), one per step, the first at time 0; the features are the number and its mark, y is the sum."""

    length: tuple[int, int] = (490, 510)  # shortest and longest, inclusive, of at least 10 steps
    features: ClassVar[int] = 2  # the number and its mark: 1 if it is added, else 0
    classes: ClassVar[int | None] = None  # a regression

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """One mark in the first 10 % of each sequence, one in its last half."""
        random = generator(STREAM, seed, split, epoch, index, size)
        lengths = random.integers(*self.length, size=size, endpoint=True)
        steps, sequences = lengths.max(), np.arange(size)
        values = random.uniform(-0.5, 0.5, (steps, size))
        early = random.integers(0, lengths // 10)
        late = random.integers((lengths + 1) // 2, lengths)
        marks = np.zeros((steps, size))
        marks[early, sequences] = marks[late, sequences] = 1.0
        # Summed after rounding to float32, as the network receives them, so that the label is exact.
        y = (values.astype(np.float32) * marks).sum(0).astype(np.float32)
        time = np.broadcast_to(np.arange(steps, dtype=np.float64)[:, None], (steps, size))
        return padded(np.stack([values, marks], -1), time, lengths, y)


def clock(record: Record) -> Clock:
    """A clock with the mean number of steps of a run's sequences."""
    steps = sum(record.settings["task"]["length"]) // 2
    return Clock(np.arange(float(steps)), "step", f"{steps} steps")


RANGES = ((0, 2), (2, 4), (4, 6), (6, 8))  # initial periods are exp U(a, b); a step is one unit of time

ADDING = Experiment(
    name="adding",
    number="Fig. 4b",
    title="Adding task",
    place=42,
    # The open ratio is fixed at 0.05: "the total number of updates remains approximately the same". The paper gives neither the
    # number of epochs nor the learning rate. At 1e-3, in a preliminary test, one of three seeds with the longest periods had not
    # converged after 100 epochs.
    base=Run("adding", "exp(0,2)", "paper", Adding(), NetworkConfig(learn_ratio_on=False), Training(epochs=100, rate=2e-3)),
    quick={"training": {"epochs": 20}},
    models=(PHASED,),
    conditions={f"exp({low},{high})": Words(*[f"period exp U({low}, {high})"] * 2) for low, high in RANGES},
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
                condition=f"exp({low},{high})",
                condition_tag=f"exp{low}to{high}",
                network={"period": (low, high), "leak": leak},
                variant=f"leak {leak:g}",
                tag=f"leak{leak:g}",
            )
