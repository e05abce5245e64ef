"""Table 1: digits seen by an event camera, classified event by event; and further studies of the same recordings."""

from __future__ import annotations

from phased.experiments.descriptor import BN_LSTM, PHASED, Clock, Experiment, Kind, Option, Study, Words, random_clock
from phased.experiments.record import Record
from phased.paper.nmnist import runs
from phased.paper.nmnist.task import TRAINED

CNN = Kind("cnn", "CNN", "#b07d2b")
OPTIONS = {
    "data": Option("A folder with real recordings in the layout of N-MNIST, to train and test on."),
    "recordings": Option("The recordings to train on.", TRAINED),
    "skip_bad": Option("Leave damaged files out.", ("yes", "no")),
}
DURATION, EVENTS = 315.0, 1000  # ms of a recording, and events in a figure of gates: more could not be distinguished


def clock(record: Record) -> Clock:
    """Random times over the duration of a recording."""
    return random_clock(DURATION, EVENTS, "ms")


EXPERIMENT = Experiment(
    name="nmnist",
    number="Table 1",
    title="N-MNIST: digits seen by an event camera",
    place=50,
    studies=(
        Study("nmnist", "Table 1: digits seen by an event camera, three networks", runs.runs, OPTIONS),
        Study("nmnist-ratios", "accuracy against updates on these digits: open ratios", runs.ratios, OPTIONS),
        Study("nmnist-real", "the Phased LSTM trained on simulated and real recordings", runs.with_real, OPTIONS),
        Study("nmnist-best", "a larger Phased LSTM, trained on changed recordings", runs.best, OPTIONS),
    ),
    models=(CNN, BN_LSTM, PHASED),
    conditions={
        "simulated": Words("trained on simulated recordings", "simulated"),
        "both": Words("trained on simulated and real recordings", "simulated and real"),
        "real": Words("trained on real recordings", "real"),
    },
    data={"": "simulated recordings", "real": "real recordings"},
    chance=0.1,  # ten classes of nearly equal size
    finding="the Phased LSTM learns faster than a BN-LSTM and than a convolutional network on summed events, stays accurate with "
    "fewer or more events, and updates a unit at one in twenty events.",
    charts=("learning", "updates", "gates"),
    updates_of=("nmnist", "nmnist-ratios"),
    clock=clock,
)
