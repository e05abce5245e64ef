"""A tiny data folder for tests: MNIST's files with a few images, and a few recordings in the layout of N-MNIST."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from phased.data import Recordings, encode
from phased.data.camera import Camera
from phased.learn.batch import Samples
from recordings import recording

IMAGES = {"train": 24, "t10k": 12}
REAL = {"Train": 10, "Test": 6}


def write_data(folder: Path, images: dict[str, int] = IMAGES) -> Path:
    """Write `mnist`, with so many random images, and `nmnist` into a folder."""
    random = np.random.default_rng(0)
    (folder / "mnist").mkdir(parents=True)
    for name, count in images.items():
        pixels = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        header = np.array([0x803, count, 28, 28], ">i4").tobytes()
        (folder / "mnist" / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels.tobytes()))
        header = np.array([0x801, count], ">i4").tobytes()
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / "mnist" / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(header + labels.tobytes()))
    for split, count in REAL.items():
        for number in range(count):
            place = folder / "nmnist" / split / str(number % 10)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number + 1:05d}.bin").write_bytes(encode(recording(20 + number, seed=number)))
    return folder


def few_recordings(lengths: tuple[int, ...] = (30, 1, 50, 42, 17)) -> Recordings:
    """Recordings of random events with these numbers of events."""
    return Recordings.of([recording(length, seed) for seed, length in enumerate(lengths)], range(len(lengths)))


def stand_in(
    images: torch.Tensor,
    label: torch.Tensor,
    seed: int = 0,
    camera: Camera | None = None,
    progress: Callable[[int], None] | None = None,
) -> Recordings:
    """In place of the camera: about 30 events for each image."""
    seeds = np.random.default_rng(seed).integers(2**31, size=len(images))
    return Recordings.of([recording(20 + number % 20, number) for number in seeds.tolist()], label.tolist()).to(images.device)


def column(samples: Samples, b: int) -> list[tuple[int, float]]:
    """The events of one sequence."""
    length = int(samples.lengths[b])
    return list(zip(samples.x[:length, b].tolist(), samples.time[:length, b].tolist(), strict=True))
