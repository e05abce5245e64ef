"""Table 1: digits seen by an event camera, classified event by event; and further studies of the same recordings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phased_lab.paper.nmnist import runs
from phased_lab.paper.nmnist.example import illustrate
from phased_lab.paper.nmnist.pack import classifier_of
from phased_lab.paper.nmnist.task import TRAINED
from phased_lab.runs.descriptor import (
    BN_LSTM,
    PHASED,
    Clock,
    Experiment,
    Kind,
    Option,
    Packed,
    Printed,
    Row,
    Study,
    Words,
    random_clock,
)
from phased_lab.runs.record import Record

CNN = Kind("cnn", "CNN", "#b07d2b", recurrent=False)
ZERO_SHOT = "on real recordings, trained on simulated ones alone"
WITH_REAL = "on real recordings, trained on simulated and real ones"
OPTIONS = {
    "data": Option("A folder with real recordings in the layout of N-MNIST, to train and test on."),
    "recordings": Option("The recordings to train on.", TRAINED),
    "skip_bad": Option("Leave damaged files out.", ("yes", "no")),
}
# The paper's numbers, in the order of its columns.
PRINTED = {
    "first": ((0.7381, 0.035), (0.4087, 0.133), (0.9032, 0.023)),
    "rho 0.75": ((0.9502, 0.003), (0.9693, 0.0012), (0.9728, 0.001)),
    "rho 0.4": ((0.9067, 0.003), (0.9479, 0.0003), (0.9511, 0.002)),
    "rho 1": ((0.9499, 0.003), (0.9655, 0.0063), (0.9727, 0.001)),
}
UPDATES = {"bn-lstm": Printed(3153), "phased": Printed(159, 2.8)}
UNCHANGED = "trained on recordings as they are"
DURATION, EVENTS = 315.0, 1000  # ms of a recording, and events in a figure of gates: more could not be distinguished


def packed(record: Record, state: Any, folder: str) -> Packed:
    """The classifier of a run; it needs no recordings."""
    if folder:
        raise ValueError("--data is for networks that need the data of their run again, and this one does not. Leave it out.")
    return classifier_of(record, state)


def printed(row: str) -> dict[str, Printed]:
    """A row of the paper's table, by network."""
    return {model: Printed(*numbers) for model, numbers in zip(("cnn", "bn-lstm", "phased"), PRINTED[row], strict=True)}


# The rows of the paper's table.
PAPERS = (
    Row("accuracy after epoch 1", epoch=1, paper=printed("first")),
    Row("trained and tested at rho 0.75", evaluation="rho 0.75", paper=printed("rho 0.75")),
    Row("tested at rho 0.4", evaluation="rho 0.4", paper=printed("rho 0.4")),
    Row("tested at rho 1.0", evaluation="rho 1", paper=printed("rho 1")),
    Row("updates per unit at rho 0.75", evaluation="rho 0.75", quantity="updates", paper=UPDATES),
)


def clock(record: Record) -> Clock:
    """Random times over the duration of a recording."""
    return random_clock(DURATION, EVENTS, "ms")


EXPERIMENT = Experiment(
    name="nmnist",
    number="Table 1",
    title="Digits seen by an event camera",
    place=50,
    studies=(
        Study("nmnist", "Table 1: digits seen by an event camera, three networks", runs.runs, OPTIONS),
        Study("nmnist-unchanged", "Table 1 with training recordings as they are", runs.unchanged, OPTIONS),
        Study("nmnist-ratios", "accuracy against updates on these digits: open ratios", runs.ratios, OPTIONS),
        Study("nmnist-real", "the Phased LSTM trained on simulated and real recordings", runs.with_real, OPTIONS),
        Study("nmnist-best", "a larger Phased LSTM, trained on changed recordings", runs.best, OPTIONS),
        Study(
            "nmnist-taught",
            "a larger Phased LSTM, taught by a convolutional network that sees whole recordings",
            runs.taught,
            OPTIONS,
        ),
    ),
    models=(CNN, BN_LSTM, PHASED),
    conditions={
        "simulated": Words("trained on simulated recordings", "simulated"),
        "both": Words("trained on simulated and real recordings", "simulated and real"),
        "real": Words("trained on real recordings", "real"),
    },
    seeds=3,
    beyond=("both", "real"),
    data={"": "simulated recordings", "real": "real recordings"},
    chance=0.1,  # ten classes of nearly equal size
    finding="the Phased LSTM learns faster than a BN-LSTM and than a convolutional network on summed events, stays accurate with "
    "fewer or more events, and updates a unit at one in twenty events.",
    headings="recordings",
    table=(
        *PAPERS,
        *(replace(row, heading=UNCHANGED, study="nmnist-unchanged") for row in PAPERS),
        Row("test recordings, rho 1.0", ZERO_SHOT, evaluation="real, rho 1", condition="simulated"),
        Row("test recordings, rho 0.75", ZERO_SHOT, evaluation="real, rho 0.75", condition="simulated"),
        Row("test recordings, rho 0.4", ZERO_SHOT, evaluation="real, rho 0.4", condition="simulated"),
        Row("training and test recordings, rho 1.0", ZERO_SHOT, evaluation="all real, rho 1", condition="simulated"),
        Row("test recordings, rho 1.0", WITH_REAL, evaluation="real, rho 1", study="nmnist-real", condition="both"),
        Row("test recordings, rho 0.75", WITH_REAL, evaluation="real, rho 0.75", study="nmnist-real", condition="both"),
        Row("test recordings, rho 0.4", WITH_REAL, evaluation="real, rho 0.4", study="nmnist-real", condition="both"),
    ),
    charts=("learning", "updates", "gates"),
    updates_of=("nmnist", "nmnist-ratios"),
    illustrate=illustrate,
    pack=packed,
    clock=clock,
)
