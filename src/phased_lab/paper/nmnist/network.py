"""The three networks of Table 1: Phased LSTM and BN-LSTM on events, a convolutional network on frames of summed events.

A second convolutional network sees a whole recording at once. It is a teacher of networks that see one event after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from phased.classifier import EventEmbedding
from phased.data.recordings import NMNIST
from phased.layer import PhasedLSTM
from phased.learn.batch import Batch, Samples
from phased.learn.model import Model, Readout
from phased.schedule import valid_steps
from phased_lab.runs.baselines import Baseline, Normalised
from phased_lab.runs.network import Network
from phased_lab.runs.taught import Taught

ModelName = Literal["phased", "bn-lstm", "lstm", "cnn"]
EVENTS = ("units", "embedding", "smooth", "forget", "dropout", "mean", "hidden", "teacher")  # settings of networks on events

PARTS, PART = 9, 35.0  # parts of a recording, and their duration in ms; the last has all later events too


@dataclass(frozen=True)
class DigitNetwork(Network):
    """The settings of one of the three networks."""

    model: ModelName = "phased"
    # Of the recurrent networks.
    units: int = 110
    embedding: int = 40  # numbers per pixel
    smooth: float = 0.0  # pixels: how far apart the first vectors of two pixels are still similar
    forget: float = 0.0  # added to the initial bias of the forget gates
    dropout: float = 0.0  # of the outputs of every layer
    mean: bool = False  # whether the mean output is read beside the last one
    hidden: int = 0  # ReLUs between these and the classes
    teacher: float = 0.0  # weight in the loss of the probabilities of a convolutional teacher trained beside it; 0 for none
    # Of the Phased LSTM. All units have the same period at first, and shifts spread over it.
    layers: int = 1
    period: float = 100.0  # ms
    ratio_on: float = 0.05
    leak: float = 0.0
    # Of the BN-LSTM, as in the other experiments.
    normalise: Normalised = "input"

    applies: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "phased": (*EVENTS, "layers", "period", "ratio_on", "leak"),
        "bn-lstm": (*EVENTS, "normalise"),
        "lstm": EVENTS,
        "cnn": (),
    }

    def network(self, task: Any) -> Model:
        """The network for a task's classes."""
        if self.model == "cnn":
            return FrameNetwork(task.classes)
        encoder = EventEmbedding(NMNIST, self.embedding, self.smooth)
        layer: PhasedLSTM | Baseline
        if self.model == "phased":
            layer = PhasedLSTM(
                encoder.features,
                self.units,
                self.layers,
                dropout=self.dropout if self.layers > 1 else 0.0,
                period=self.period,
                shift=[spread_evenly(self.units, self.period) for _ in range(self.layers)],
                ratio_on=self.ratio_on,
                leak=self.leak,
            )
        else:
            layer = Baseline(encoder.features, self.units, self.normalise if self.model == "bn-lstm" else None)
        raise_forget_bias(layer, self.forget)
        network = Readout(
            layer,
            task.classes,
            encoder,
            encode_padding=True,
            dropout=self.dropout,
            mean=self.mean,
            hidden=self.hidden,
        )
        return Taught(network, MovieNetwork(task.classes), self.teacher) if self.teacher else network


def spread_evenly(units: int, period: float) -> Tensor:
    """Random shifts, one in each of `units` equal parts of the period, (units,).

    Together the units then open equally often at every time of the cycle. Independent shifts would leave gaps, and because a
    saccade's events come in bursts, the units of one network would have several percent more updates than those of another.
    """
    return period * (torch.arange(units) + torch.rand(units, dtype=torch.float64)) / units


def raise_forget_bias(layer: nn.Module, forget: float) -> None:
    """Add to the biases of the forget gates of a layer, so that it forgets less at first."""
    for name, bias in layer.named_parameters():
        if "bias_hh" in name:  # gates i, f, g, o
            with torch.no_grad():
                bias.chunk(4)[1].add_(forget)


class FrameNetwork(Model):
    """A convolutional network on the events of a recording, summed per pixel.

    The paper: "three alternating layers of 8 kernels of 5x5 convolution with a leaky ReLU nonlinearity and 2x2 max-pooling, which
    were then fully-connected to 256 neurons, and finally fully-connected to the 10 output classes". How we read the rest: events
    of both polarities are counted in one frame, as in Fig. 5b, padding keeps the size of a frame before pooling, and the 256
    neurons are leaky ReLUs too.
    """

    # Counts are divided by this fixed number, so that inputs are of the order of one. A frame with more events has larger inputs.
    EVENTS = 8.0

    def __init__(self, classes: int) -> None:
        super().__init__()
        size = 8 * (NMNIST.width // 8) * (NMNIST.height // 8)
        self.layers = nn.Sequential(
            *(layer for inputs in (1, 8, 8) for layer in (nn.Conv2d(inputs, 8, 5, padding=2), nn.LeakyReLU(), nn.MaxPool2d(2))),
            nn.Flatten(),
            nn.Linear(size, 256),
            nn.LeakyReLU(),
            nn.Linear(256, classes),
        )

    def forward(self, batch: Batch) -> Tensor:
        """The output for each recording, (B, classes)."""
        answer: Tensor = self.layers(frame(batch.samples) / self.EVENTS)
        return answer


def frame(samples: Samples) -> Tensor:
    """The number of events of each pixel, (B, 1, height, width)."""
    return counted(samples, torch.arange(samples.x.shape[1], device=samples.x.device), 1)


class MovieNetwork(Model):
    """Convolutions over frames of summed events, one for each part of a recording and polarity."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        widths = (2 * PARTS, 32, 32, 64, 64, 128)
        layers: list[nn.Module] = [nn.BatchNorm2d(widths[0])]
        for number, (inputs, outputs) in enumerate(pairwise(widths), 1):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            if number % 2 == 0:
                layers.append(nn.MaxPool2d(2))
        size = widths[-1] * (NMNIST.width // 8) * (NMNIST.height // 8)
        self.layers = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(size, classes))

    def forward(self, batch: Batch) -> Tensor:
        """The output for each recording, (B, classes)."""
        answer: Tensor = self.layers(movie(batch.samples))
        return answer


def movie(samples: Samples) -> Tensor:
    """The number of events of each pixel, part of the recording and polarity, (B, 2 PARTS, height, width)."""
    sequence = torch.arange(samples.x.shape[1], device=samples.x.device)
    part = (samples.time / PART).long().clamp(0, PARTS - 1)
    return counted(samples, (sequence * PARTS + part) * 2 + (samples.x & 1), 2 * PARTS)


def counted(samples: Samples, frame: Tensor, frames: int) -> Tensor:
    """The number of events of each pixel in `frames` frames of each recording, (B, frames, height, width).

    `frame`, (T, B) or (B,), is the number of each event's frame among those of all recordings.
    """
    steps, sequences = samples.x.shape
    counts = torch.zeros(sequences * frames * NMNIST.height * NMNIST.width, device=samples.x.device)
    place = frame * NMNIST.height * NMNIST.width + (samples.x >> 1)
    counts.scatter_add_(0, place.flatten(), valid_steps(steps, samples.lengths).flatten().to(counts.dtype))
    return counts.view(sequences, frames, NMNIST.height, NMNIST.width)
