"""The recording of Figure 5: a real one if there is any, otherwise a simulated one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from phased.data.camera import simulate
from phased.data.data_set import open_recordings
from phased.data.mnist import SIDE, read_mnist
from phased.data.places import find_mnist, find_nmnist
from phased.data.recording import Recording
from phased.data.saccades import displacement
from phased_lab.paper.trace import Array

DIGIT = 8
END = 315  # ms


@dataclass(frozen=True)
class Shown:
    """A recording, its origin in words, and the movement of the digit: times in ms (N,), x and y in pixels (N, 2)."""

    recording: Recording
    origin: str
    time: Array
    path: Array

    @property
    def frame(self) -> NDArray[np.int64]:
        """The number of events at each pixel, (height, width)."""
        width, height = self.recording.sensor
        pixels = self.recording.y.astype(np.int64) * width + self.recording.x
        return np.bincount(pixels, minlength=width * height).reshape(height, width)


def run() -> Shown:
    """The first recording of an 8 that PHASED_DATA has; else what the camera in software records of an 8."""
    time = np.arange(END + 1.0)
    for find in (real, of_mnist):
        try:
            recording, origin = find()
        except FileNotFoundError:
            continue
        return Shown(recording, origin, time, displacement(time))
    return Shown(*of_rings(), time, displacement(time))


def real() -> tuple[Recording, str]:
    """The first real recording of the digit."""
    recordings, _ = open_recordings(find_nmnist(), "train", skip_bad=True)
    found = (recordings.label == DIGIT).nonzero()
    if not len(found):
        raise FileNotFoundError(f"expected a recording of the digit {DIGIT}, got none among the training recordings.")
    first = int(found[0])
    return recordings[first], f"real recording number {int(recordings.number[first])} of N-MNIST"


def of_mnist() -> tuple[Recording, str]:
    """A simulated recording of the first image of the digit."""
    images, labels = read_mnist(find_mnist(), "train")
    first = int(np.flatnonzero(labels == DIGIT)[0])
    return simulated(images[first]), f"simulated recording of image number {first + 1} of MNIST"


def of_rings() -> tuple[Recording, str]:
    """A simulated recording of two rings, one above the other."""
    y, x = np.mgrid[:SIDE, :SIDE]
    rings = [np.abs(np.hypot(x - 14, y - centre) - radius) < 1.4 for centre, radius in ((9, 4), (18, 5))]
    return simulated(np.where(rings[0] | rings[1], 255, 0).astype(np.uint8)), "simulated recording of two rings"


def simulated(image: NDArray[np.uint8]) -> Recording:
    """What the camera in software records of an image (28, 28)."""
    return simulate(torch.from_numpy(image).unsqueeze(0))[0]
