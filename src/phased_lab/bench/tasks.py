"""Time of a training step of each of the paper's synthetic tasks: ours, nn.LSTM's and a plain PyTorch loop's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from phased.layer import PhasedRNN
from phased.learn.batch import Task
from phased.learn.device import make_fabric
from phased.learn.loop import Training, adam, train_once
from phased.learn.readout import Readout
from phased.learn.share import shared
from phased.learn.step import WARM_UP, RecordedStep, Step
from phased_lab.bench.measure import Timing
from phased_lab.paper.adding.task import Adding
from phased_lab.paper.frequency.task import Sines
from phased_lab.runs.network import NetworkConfig


@dataclass(frozen=True)
class Figure:
    """A task of the paper, and the epochs of a run; an epoch is 157 training steps of 32 sequences."""

    name: str
    task: Task
    epochs: int
    network: NetworkConfig = NetworkConfig()  # noqa: RUF009 (frozen)
    learned: float = 0.25  # about the mean open ratio after training

    @property
    def steps(self) -> int:
        """Training steps of a run."""
        training = Training()
        return self.epochs * -(-training.train // training.batch)


FIGURES = (
    Figure("frequency, standard", Sines(condition="standard"), 70),
    Figure("frequency, high resolution", Sines(condition="high"), 70, learned=0.13),
    Figure("frequency, asynchronous", Sines(condition="asynchronous"), 70),
    Figure("superimposed", Sines(condition="asynchronous", waves=2), 300, learned=0.4),
    Figure("adding", Adding(), 100, NetworkConfig(period=(6.0, 8.0), learn_ratio_on=False), learned=0.05),
)


@dataclass(frozen=True)
class Contestant:
    """A network on a task; with `plain`, it runs the reference loop in plain PyTorch."""

    name: str
    network: NetworkConfig
    plain: bool = False


def contestants(figure: Figure) -> list[Contestant]:
    """Ours with the open ratio at the start and, if learned, at the end of training; with the paper's leak; and the peers."""
    network = figure.network
    free = {"leak": 0.0}
    found = [Contestant(f"leak 0, r_on {network.ratio_on:g}", changed(network, **free))]
    if figure.learned != network.ratio_on:
        found.append(Contestant(f"leak 0, r_on {figure.learned:g}", changed(network, ratio_on=figure.learned, **free)))
    return [
        *found,
        Contestant("leak 0.001", network),
        Contestant("nn.LSTM", changed(network, model="lstm")),
        Contestant("plain loop", network, plain=True),
    ]


def changed(network: NetworkConfig, **numbers: Any) -> NetworkConfig:
    """The network with some settings replaced."""
    return NetworkConfig(**{**vars(network), **numbers})


def build(figure: Figure, contestant: Contestant) -> Readout:
    """The network before training."""
    model: Readout = contestant.network.build(figure.task, seed=0)
    if contestant.plain and isinstance(model.rnn, PhasedRNN):
        model.rnn.backend = "reference"
    return model


def step(figure: Figure, contestant: Contestant, device: str, rounds: int, recorded: bool = False) -> Timing:
    """Seconds of a training step with the optimiser: a few rounds to warm up, then rounds of 8 steps (plain loop: 2 rounds of 1).

    With `recorded`, steps are replayed as CUDA graphs; as many rounds to warm up as it takes until they are recorded.
    """
    fabric, training = make_fabric(device), Training()
    model = build(figure, contestant)
    optimizer = adam(list(model.parameters()), training.rate, fabric.device)
    steps = (RecordedStep if recorded else Step).of(model, optimizer, training, fabric)
    count, rounds = (1, 2) if contestant.plain else (8, rounds)
    warm_up = 2 + WARM_UP // count if recorded else 1
    batches = [shared(figure.task.batch(0, "train", 1, i, training.batch), fabric) for i in range(count)]
    seconds = []
    for _ in range(warm_up + rounds):
        wait(fabric.device)
        begin = time.perf_counter()
        train_once(steps, iter(batches))
        wait(fabric.device)
        seconds.append((time.perf_counter() - begin) / count)
    return Timing.of(seconds[warm_up:])


def wait(device: torch.device) -> None:
    """Synchronise with the GPU, if it is one."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
