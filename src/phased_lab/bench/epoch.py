"""Time of an epoch of training on recordings of digits, as `phased run nmnist` trains.

It includes making the batches, all training steps and the average of the parameters, and neither the test nor the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from phased.learn.average import Average
from phased.learn.device import one_device
from phased.learn.feed import BatchNumber, shares, sizes
from phased.learn.loop import Training, adam, train_once
from phased.learn.step import Step
from phased_lab.bench.benchmark import Case, Sheet, benchmark, contestants
from phased_lab.bench.measure import compare
from phased_lab.paper.nmnist import base
from phased_lab.paper.nmnist.network import DigitNetwork
from phased_lab.paper.nmnist.task import Digits

PAPER = base()
WARM_UP = 20  # batches


class Contestant:
    """A network in training."""

    def __init__(self, network: DigitNetwork, task: Digits, training: Training, device: str) -> None:
        self.fabric, self.task, self.training = one_device(device), task, replace(training, train=task.visits)
        model = network.build(task, seed=0)
        optimizer = adam(list(model.parameters()), training.rate, self.fabric.device)
        self.step = Step.of(model, optimizer, training, self.fabric)
        self.average = Average(model, training.average) if training.average else None
        self.epochs = 0
        self.train(WARM_UP)

    def train(self, batches: int | None = None) -> None:
        """Train on some or all batches of the next epoch. The last step reads the loss from the device."""
        self.epochs += 1
        places = [
            BatchNumber("train", self.epochs, n, size) for n, size in enumerate(sizes(self.training.train, self.training.batch))
        ]
        made = shares(self.task, self.training.batch, self.training.seed, places, self.fabric)
        train_once(self.step, islice(made, batches), self.epochs, self.average)


def networks() -> dict[str, tuple[Any, Any]]:
    """Return the network of Table 1, with original and changed recordings, and its peers with original recordings."""
    network, whole = DigitNetwork(), Digits()
    return {
        "Phased LSTM": (network, whole),
        "Phased LSTM, recordings changed": (PAPER.network, PAPER.task),
        "nn.LSTM": (replace(network, model="lstm"), whole),
        "BN-LSTM": (replace(network, model="bn-lstm"), whole),
    }


def measure(recordings: int, rounds: int) -> dict[str, Any]:
    """Time an epoch of simulated recordings. Contestants take turns after a warm-up of a few batches."""
    racing = {
        name: Contestant(network, replace(task, images=(recordings, 1)), PAPER.training, "auto")
        for name, (network, task) in networks().items()
    }
    seconds = compare({name: contestant.train for name, contestant in racing.items()}, rounds, long=True)
    return {"batch": PAPER.training.batch, "seconds": seconds}


@benchmark(
    Sheet(
        contestants,
        {
            "an epoch of {recordings:,} recordings": lambda row: row.label,
            "time": lambda row: f"{row.median():.1f} s",
            "speed-up of the first row": lambda row: row.speed_up_of_first(),
        },
    ),
    gpu={"recordings": 60_000, "rounds": 2},
    quick={"recordings": 2_000, "rounds": 1},
)
def epoch(recordings: int = 2_000, rounds: int = 1) -> Iterator[Case]:
    """Simulated recordings of digits."""
    yield Case("an epoch", f"{recordings:,} recordings", partial(measure, recordings, rounds))
