"""A convolutional network that sees a whole recording at once, as a teacher of networks that see one event after another."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from phased.data.recordings import NMNIST
from phased.learn.batch import Batch, Samples
from phased.learn.model import Model
from phased.schedule import valid_steps

PARTS, PART = 9, 35.0  # parts of a recording, and their duration in ms; the last has all later events too


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
