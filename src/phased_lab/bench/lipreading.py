"""Time of a training step of lip reading, and its updates: Phased LSTM with several open ratios, BN-LSTM and LSTM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from phased.fusion import Timeline
from phased.learn.batch import Batch, Samples
from phased.learn.device import make_fabric
from phased.learn.loop import adam, train_once
from phased.learn.share import shared
from phased.learn.step import Step
from phased_lab.bench.measure import Timing
from phased_lab.bench.tasks import wait
from phased_lab.lipreader.network import SIDE, SOUND
from phased_lab.paper.lipreading import RUN, improved
from phased_lab.paper.lipreading.network import LipNetwork
from phased_lab.paper.lipreading.task import RATES, RESOLUTIONS, Resolution, Sentences

PAPER = improved(RUN)
SECONDS, FRAMES = 3, 25  # of a clip, and a second
USUAL_RATIO = 0.05  # of the paper's other tasks


@dataclass(frozen=True)
class Contestant:
    """A network at a resolution."""

    name: str
    resolution: Resolution
    network: LipNetwork


class Measured(NamedTuple):
    """The seconds of a training step, and the updates as a share of those of a network that updates all units at every step."""

    step: Timing
    updates: float


def contestants() -> Iterator[Contestant]:
    """The networks of the study at both resolutions, and the Phased LSTM with fewer open units and with a leak."""
    network: Any = PAPER.network
    for resolution in RESOLUTIONS:
        yield Contestant(f"Phased LSTM, r_on {network.ratio_on:g}", resolution, network)
        yield Contestant(f"Phased LSTM, r_on {USUAL_RATIO:g}", resolution, replace(network, ratio_on=USUAL_RATIO))
        yield Contestant(
            f"Phased LSTM, r_on {USUAL_RATIO:g}, leak 0.001", resolution, replace(network, ratio_on=USUAL_RATIO, leak=1e-3)
        )
        yield Contestant("BN-LSTM", resolution, replace(network, model="bn-lstm"))
        yield Contestant("LSTM", resolution, replace(network, model="lstm"))


def made_up(resolution: Resolution, clips: int) -> Batch:
    """Clips of noise with the times of GRID's; a label counts at every step."""
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


def measure(contestant: Contestant, clips: int, device: str, rounds: int) -> Measured:
    """Train on one batch again and again: one step to warm up, then one for every round."""
    fabric, training = make_fabric(device), replace(PAPER.training, schedule="constant")
    model = contestant.network.build(Sentences(), seed=0)
    optimizer = adam([each for each in model.parameters() if each.requires_grad], training.rate, fabric.device)
    step = Step.of(model, optimizer, training, fabric)
    share = shared(made_up(contestant.resolution, clips), fabric)
    seconds = []
    for _ in range(rounds + 1):
        wait(fabric.device)
        begin = time.perf_counter()
        train_once(step, iter([share]))
        wait(fabric.device)
        seconds.append(time.perf_counter() - begin)
    with torch.no_grad():
        counted = model.eval().updates(share.batch)
    return Measured(Timing.of(seconds[1:]), 1.0 if counted is None else float(counted.made / counted.possible))
