"""The recordings of the experiment: MNIST through the event camera in software, and real N-MNIST recordings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from phased.data.camera import simulate
from phased.data.data_set import open_recordings
from phased.data.mnist import read_mnist
from phased.data.places import find_mnist, find_nmnist
from phased.data.recordings import Recordings
from phased.learn.batch import Split

Kind = Literal["simulated", "real"]
CPU = torch.device("cpu")
# The recordings of every run are the same: a run's own seed changes neither noise nor thresholds of the camera.
CAMERA_SEED = {"train": 0, "test": 1}


@dataclass(frozen=True)
class Source:
    """Recordings of one kind and split.

    Args:
        kind: "simulated" from MNIST images, or "real".
        split: the training or the test set, as MNIST and N-MNIST divide them.
        images: how many of the MNIST images are simulated, from the first; not used for real recordings.
        folder: MNIST's files, or real recordings in the layout of N-MNIST; "" for those that PHASED_DATA has.
        skip_bad: leave damaged files out, instead of raising an error.
    """

    kind: Kind
    split: Split
    images: int = 0
    folder: str = ""
    skip_bad: bool = False


def load(source: Source, device: torch.device = CPU) -> Recordings:
    """The recordings of a source on a device. They are read or simulated once per process."""
    find = find_mnist if source.kind == "simulated" else find_nmnist
    return _loaded(replace(source, folder=str(find(source.folder or None))), device)


@cache
def _loaded(source: Source, device: torch.device) -> Recordings:
    if source.kind == "simulated":
        return simulated(source, device)
    return real(source) if device.type == "cpu" else _loaded(source, CPU).to(device)


def simulated(source: Source, device: torch.device) -> Recordings:
    """The first images of MNIST's training or test set, recorded by the camera in software on this device."""
    images, labels = (torch.from_numpy(part) for part in read_mnist(source.folder, source.split))
    if len(images) < source.images:
        raise ValueError(
            f"MNIST must have {source.images} images in its {source.split} set, got {len(images)} in '{source.folder}'."
        )
    return simulate(images[: source.images].to(device), labels[: source.images].long(), seed=CAMERA_SEED[source.split])


def real(source: Source) -> Recordings:
    """Real recordings, memory-mapped; warns of files that were left out."""
    recordings, skipped = open_recordings(source.folder, source.split, skip_bad=source.skip_bad)
    if skipped:
        warnings.warn(f"{len(skipped)} damaged files were left out, the first: {skipped[0]}", stacklevel=2)
    return recordings


def count(source: Source) -> int:
    """The number of recordings of a source."""
    return source.images if source.kind == "simulated" else len(load(source))


def has_real(folder: str = "") -> bool:
    """Whether there are real recordings for a test: in the folder, or where PHASED_DATA has them."""
    try:
        place = find_nmnist(folder or None)
    except FileNotFoundError:
        return False
    return any((Path(place) / name).exists() for name in ("Test", "Test.zip", "test.zip"))
