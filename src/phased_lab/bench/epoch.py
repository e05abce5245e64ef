"""Time of an epoch of training on recordings of digits, as `phased run nmnist` trains.

It includes making the batches, all training steps and the average of the parameters, and neither the test nor the checkpoint.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from typing import Any

from phased.learn.average import Average
from phased.learn.device import make_fabric
from phased.learn.loader import Place, sizes
from phased.learn.loop import Training, adam, train_once
from phased.learn.share import shares
from phased.learn.step import Step
from phased_lab.bench.measure import Timing
from phased_lab.paper.nmnist import RUN
from phased_lab.paper.nmnist.network import DigitNetwork
from phased_lab.paper.nmnist.task import Digits

PAPER = RUN
WARM_UP = 20  # batches


class Contestant:
    """A network in training: `epoch()` trains on all recordings once and returns the seconds it took."""

    def __init__(self, network: DigitNetwork, task: Digits, training: Training, device: str) -> None:
        self.fabric, self.task, self.training = make_fabric(device), task, replace(training, train=task.visits)
        model = network.build(task, seed=0)
        optimizer = adam(list(model.parameters()), training.rate, self.fabric.device)
        self.step = Step.of(model, optimizer, training, self.fabric)
        self.average = Average(model, training.average) if training.average else None
        self.epochs = 0
        self.train(WARM_UP)

    def train(self, batches: int | None = None) -> None:
        """Train on the first batches of the next epoch; None for all of them."""
        self.epochs += 1
        places = [Place("train", self.epochs, n, size) for n, size in enumerate(sizes(self.training.train, self.training.batch))]
        made = shares(self.task, self.training.batch, self.training.seed, places, self.fabric)
        train_once(self.step, islice(made, batches), self.epochs, self.average)

    def epoch(self) -> float:
        """The seconds of an epoch."""
        begin = time.perf_counter()
        self.train()  # its last step reads the loss from the device
        return time.perf_counter() - begin


def contestants() -> dict[str, tuple[Any, Any]]:
    """The network of Table 1 on recordings as they are and on changed ones, and its peers on recordings as they are."""
    network, whole = DigitNetwork(), Digits()
    return {
        "Phased LSTM": (network, whole),
        "Phased LSTM, recordings changed": (PAPER.network, PAPER.task),
        "nn.LSTM": (replace(network, model="lstm"), whole),
        "BN-LSTM": (replace(network, model="bn-lstm"), whole),
    }


def measure(recordings: int, rounds: int, device: str) -> dict[str, Timing]:
    """Seconds of an epoch of so many simulated recordings; contestants take turns, after a warm-up of a few batches."""
    racing = {
        name: Contestant(network, replace(task, images=(recordings, 1)), PAPER.training, device)
        for name, (network, task) in contestants().items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in racing}
    for _ in range(rounds):
        for name, contestant in racing.items():
            seconds[name].append(contestant.epoch())
    return {name: Timing.of(times) for name, times in seconds.items()}
