"""Table 1: digits seen by an event camera, classified event by event; and further studies of the same recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from phased.learn.batch import SPLITS
from phased.learn.loop import Training
from phased_lab.paper.nmnist import data
from phased_lab.paper.nmnist.network import DigitNetwork
from phased_lab.paper.nmnist.pack import classifier_of
from phased_lab.paper.nmnist.task import Digits
from phased_lab.runs.descriptor import BN_LSTM, PHASED, Experiment, Kind, Option, Printed, Row, Words, random_clock
from phased_lab.runs.run import Run

TRAINED = ("simulated", "real", "both")
CNN = Kind("cnn", "CNN", "#b07d2b", recurrent=False)
ZERO_SHOT = "on real recordings, trained on simulated ones alone"
WITH_REAL = "on real recordings, trained on simulated and real ones"
OPTIONS = {
    "data": Option("A folder with real recordings in the layout of N-MNIST, to train and test on."),
    "recordings": Option("The recordings to train on.", TRAINED),
    "skip_bad": Option("Leave damaged files out.", ("yes", "no")),
}
DURATION, EVENTS = 315.0, 1000  # ms of a recording, and events in a figure of gates: more could not be distinguished


def printed(*numbers: tuple[float, float]) -> dict[str, Printed]:
    """A row of the paper's table, by network, in the order of its columns."""
    return {model: Printed(*each) for model, each in zip(("cnn", "bn-lstm", "phased"), numbers, strict=True)}


# The rows of the paper's table.
FIRST = printed((0.7381, 0.035), (0.4087, 0.133), (0.9032, 0.023))
TRAINED_AT = printed((0.9502, 0.003), (0.9693, 0.0012), (0.9728, 0.001))
FEWER = printed((0.9067, 0.003), (0.9479, 0.0003), (0.9511, 0.002))
MORE = printed((0.9499, 0.003), (0.9655, 0.0063), (0.9727, 0.001))
UPDATES = {"bn-lstm": Printed(3153), "phased": Printed(159, 2.8)}
PAPERS = (
    Row("accuracy after epoch 1", epoch=1, paper=FIRST),
    Row("trained and tested at rho 0.75", evaluation="rho 0.75", paper=TRAINED_AT),
    Row("tested at rho 0.4", evaluation="rho 0.4", paper=FEWER),
    Row("tested at rho 1.0", evaluation="rho 1", paper=MORE),
    Row("updates per unit at rho 0.75", evaluation="rho 0.75", quantity="updates", paper=UPDATES),
)


def on_real(heading: str, condition: str, study: str = "") -> list[Row]:
    """The rows of the tests on real recordings."""
    names = {keep: f"real, rho {keep:g}" for keep in (1.0, 0.75, 0.4)}
    return [Row(f"test recordings, rho {keep}", heading, 0, name, "metric", study, condition) for keep, name in names.items()]


# The settings of Table 1. The paper gives neither the learning rate nor the number of epochs. 60,000 recordings are few: networks
# learn them by heart unless every epoch changes them.
BASE = Run(
    "nmnist",
    "simulated",
    "paper",
    Digits(shift=1, turn=10.0, stretch=0.1, jitter=4.0),
    DigitNetwork(forget=2.0, dropout=0.2),
    Training(epochs=24, batch=128, rate=5e-3, schedule="one-cycle", average=0.998),
)
UNCHANGED: dict[str, Any] = {"shift": 0, "turn": 0.0, "stretch": 0.0, "jitter": 0.0}
PLAIN: dict[str, Any] = {"forget": 0.0, "dropout": 0.0}
# A few minutes on two cores: a thirtieth of the recordings.
QUICK = {"task": UNCHANGED | {"images": (2000, 500)}, "training": {"epochs": 4, "batch": 16, "rate": 3e-3, "average": 0.0}}


def choose(run: Run, options: Mapping[str, str]) -> Run:
    """The run with the recordings that the options choose. The command of a record has no path of this machine."""
    folder = options.get("data", "")
    usual = "both" if run.study == "nmnist-real" else "real" if folder else "simulated"
    recordings = options.get("recordings", usual)
    damaged = {"skip_bad": "yes"} if options.get("skip_bad") == "yes" else {}
    return run.vary(
        condition=recordings,
        task={
            "recordings": recordings,
            "real": data.identity(folder) if folder else "",
            "folder": folder,
            "skip_bad": bool(damaged),
        },
        data="real" if recordings == "real" else "",
        options=({} if recordings == usual else {"recordings": recordings}) | ({"data": "FOLDER"} if folder else {}) | damaged,
    )


def counted(run: Run, words: str = "", **changes: Any) -> Run:
    """The run with these changes, the number of its recordings among its settings, and a label with the open ratio."""
    run = run.vary(**changes)
    task: Any = run.task
    network: Any = run.network
    ratio = f"r_on {network.ratio_on:g}" if network.model == "phased" else ""
    counts = {split: task.visits(split) for split in SPLITS}
    return run.vary(training=counts, variant=", ".join(filter(None, (words.format(units=network.units), ratio))))


NMNIST = Experiment(
    name="nmnist",
    number="Table 1",
    title="Digits seen by an event camera",
    place=50,
    base=BASE,
    quick=QUICK,
    options=OPTIONS,
    choose=choose,
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
        *(replace(row, heading="trained on recordings as they are", study="nmnist-unchanged") for row in PAPERS),
        *on_real(ZERO_SHOT, "simulated"),
        Row("training and test recordings, rho 1.0", ZERO_SHOT, evaluation="all real, rho 1", condition="simulated"),
        *on_real(WITH_REAL, "both", "nmnist-real"),
    ),
    charts=("learning", "updates", "gates"),
    updates_of=("nmnist", "nmnist-ratios"),
    pack=classifier_of,
    clock=lambda record: random_clock(DURATION, EVENTS, "ms"),
)


def models(run: Run) -> tuple[str, ...]:
    """Those of Table 1. Quick has no BN-LSTM, which alone would take a quarter of an hour."""
    return run.pick(paper=("cnn", "bn-lstm", "phased"), quick=("cnn", "phased"))


@NMNIST.study("Table 1: digits seen by an event camera, three networks")
def nmnist(run: Run) -> Iterator[Run]:
    """Every model of Table 1."""
    yield from (counted(run, network={"model": model}) for model in models(run))


@NMNIST.study("Table 1 with training recordings as they are")
def nmnist_unchanged(run: Run) -> Iterator[Run]:
    """Every model of Table 1 as far as the paper says: without dropout, and without a bias of the forget gates."""
    plain = run.vary(task=UNCHANGED, network=PLAIN, tag="unchanged")
    yield from (counted(plain, "recordings unchanged", network={"model": model}) for model in models(run))


@NMNIST.study("accuracy against updates on these digits: open ratios")
def nmnist_ratios(run: Run) -> Iterator[Run]:
    """The Phased LSTM with several open ratios, beside the one of the network above."""
    for ratio in run.pick(paper=(0.02, 0.1, 0.2), quick=(0.02, 0.2)):
        yield counted(run, network={"ratio_on": ratio}, tag=f"ratio{ratio:g}")


@NMNIST.study("the Phased LSTM trained on simulated and real recordings")
def nmnist_real(run: Run) -> Iterator[Run]:
    """The Phased LSTM trained on simulated and real recordings."""
    yield counted(run)


# Of the studies of larger networks: quick ones are as small as the others.
SMALL: dict[str, Any] = {"spread": 0.25, "shift": 1, "jitter": 4.0}
BENT: dict[str, Any] = {"shift": 1, "turn": 10.0, "stretch": 0.1, "bend": 1.0, "jitter": 4.0}
LONG = {"rate": 4e-3, "average": 0.999}


@NMNIST.study("a larger Phased LSTM, trained on changed recordings")
def nmnist_best(run: Run) -> Iterator[Run]:
    """A quarter of an hour on a GPU: more units that are open for longer, and recordings that are also bent."""
    network: dict[str, Any] = {"ratio_on": 0.1} | run.pick(paper={"units": 256, "dropout": 0.3}, quick=PLAIN)
    task = run.pick(paper={"keep": 0.7, "spread": 0.3} | BENT, quick=SMALL)
    training = run.pick(paper={"epochs": 42} | LONG, quick={})
    yield counted(run, "{units} units", task=task, network=network, training=training, tag="best")


@NMNIST.study("a larger Phased LSTM, taught by a convolutional network that sees whole recordings")
def nmnist_taught(run: Run) -> Iterator[Run]:
    """Ten minutes on a GPU: pixels have smooth vectors at first, ReLUs read the mean output too, recordings have fewer events."""
    wide = {"units": 256, "ratio_on": 0.2, "hidden": 256}
    size: dict[str, Any] = run.pick(paper=wide, quick={"ratio_on": 0.1, "hidden": 64} | PLAIN)
    network = size | {"smooth": 3.0, "mean": True, "teacher": 0.7}
    task = run.pick(paper={"keep": 0.85, "spread": 0.15, "most": 3000} | BENT, quick=SMALL | {"most": 2800})
    training = run.pick(paper={"epochs": 31} | LONG, quick={})
    yield counted(run, "{units} units, taught by a CNN", task=task, network=network, training=training, tag="taught")
