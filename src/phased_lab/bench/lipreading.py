"""Time and updates of a training step of lip reading: Phased LSTM with several open ratios, BN-LSTM, LSTM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from phased.fusion import Timeline
from phased.learn.batch import Batch, Samples
from phased.learn.device import one_device
from phased.learn.feed import shared
from phased.learn.loop import adam, train_once
from phased.learn.step import Step
from phased_lab.bench.benchmark import Case, Sheet, benchmark, contestants
from phased_lab.bench.measure import compare, synchroniser
from phased_lab.lipreader.network import SIDE, SOUND
from phased_lab.paper.lipreading import base, improved
from phased_lab.paper.lipreading.network import LipNetwork
from phased_lab.paper.lipreading.task import RATES, RESOLUTIONS, Resolution, Sentences

PAPER = improved(base())
SECONDS, FRAMES = 3, 25  # of a clip, and a second
USUAL_RATIO = 0.05  # of the paper's other tasks


def networks() -> dict[str, LipNetwork]:
    """The networks of the study, and the Phased LSTM with fewer open units and with a leak."""
    network: Any = PAPER.network
    usual = replace(network, ratio_on=USUAL_RATIO)
    return {
        f"Phased LSTM, r_on {network.ratio_on:g}": network,
        f"Phased LSTM, r_on {USUAL_RATIO:g}": usual,
        f"Phased LSTM, r_on {USUAL_RATIO:g}, leak 0.001": replace(usual, leak=1e-3),
        "BN-LSTM": replace(network, model="bn-lstm"),
        "LSTM": replace(network, model="lstm"),
    }


def made_up(resolution: Resolution, clips: int) -> Batch:
    """Make clips of noise with the times of GRID. A label counts at every step."""
    random = torch.Generator().manual_seed(0)
    streams = {}
    for name, rate, shape in (("video", FRAMES, (1, SIDE, SIDE)), ("audio", RATES[resolution], (SOUND,))):
        steps = SECONDS * rate
        moments = (1000 / rate * torch.arange(1, steps + 1, dtype=torch.float64)).unsqueeze(1).expand(steps, clips)
        streams[name] = Samples(
            torch.randn(steps, clips, *shape, generator=random), moments.contiguous(), torch.full((clips,), steps)
        )
    timeline = Timeline.of({name: samples.time for name, samples in streams.items()})
    words = torch.randint(Sentences().classes, timeline.time.shape, generator=random)
    return Batch(streams, words, torch.ones_like(words, dtype=torch.bool))


class Contestant:
    """A network in training on one batch of clips."""

    def __init__(self, network: LipNetwork, clips: Batch) -> None:
        fabric, training = one_device("auto"), replace(PAPER.training, schedule="constant")
        self.model = network.build(Sentences(), seed=0)
        optimizer = adam([each for each in self.model.parameters() if each.requires_grad], training.rate, fabric.device)
        self.step = Step.of(self.model, optimizer, training, fabric)
        self.share = shared(clips, fabric)
        self.train()

    def train(self) -> None:
        """One training step."""
        train_once(self.step, iter([self.share]))

    def updates(self) -> float:
        """Return the update rate. A network that updates all units at every step has 1."""
        with torch.no_grad():
            counted = self.model.eval().updates(self.share.batch)
        return 1.0 if counted is None else float(counted.made / counted.possible)


def measure(resolution: Resolution, clips: int, rounds: int) -> dict[str, Any]:
    """Seconds of a training step, and updates. Networks take turns."""
    batch = made_up(resolution, clips)
    racing = {name: Contestant(network, batch) for name, network in networks().items()}
    seconds = compare({name: each.train for name, each in racing.items()}, rounds, sync=synchroniser(), long=True)
    return {"seconds": seconds, "updates": {name: each.updates() for name, each in racing.items()}}


@benchmark(
    Sheet(
        contestants,
        {
            "resolution": lambda row: row.case["case"],
            "a training step of {clips} clips": lambda row: row.label,
            "time": lambda row: row.value(digits=0),
            "speed-up of the first row": lambda row: row.speed_up_of_first(),
            "updates": lambda row: f"{100 * row.case['updates'][row.own]:.0f} %",
        },
    ),
    gpu={"clips": 64},
    quick={"rounds": 2},
)
def lipreading(rounds: int = 9, clips: int = 4) -> Iterator[Case]:
    """Made-up clips at both resolutions."""
    for resolution in RESOLUTIONS:
        yield Case("a training step", resolution, partial(measure, resolution, clips, rounds))
