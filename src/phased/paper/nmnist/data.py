"""The recordings of the experiment: MNIST through the event camera in software, and real N-MNIST recordings."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from phased.data import Recordings
from phased.learn.batch import Split

Kind = Literal["simulated", "real"]
VARIABLE = "PHASED_DATA"
# The recordings of every run are the same: a run's own seed changes neither noise nor thresholds of the camera.
CAMERA_SEED = {"train": 0, "test": 1}


@dataclass(frozen=True)
class Source:
    """Recordings of one kind and split.

    Args:
        kind: "simulated" from MNIST images, or "real".
        split: the training or the test set, as MNIST and N-MNIST divide them.
        images: how many of the MNIST images are simulated, from the first; not used for real recordings.
        folder: real recordings in the layout of N-MNIST; "" for `nmnist` in the folder that PHASED_DATA names.
        skip_bad: leave damaged files out, instead of raising an error.
    """

    kind: Kind
    split: Split
    images: int = 0
    folder: str = ""
    skip_bad: bool = False


@cache
def load(source: Source, device: torch.device) -> Recordings:
    """The recordings of a source on a device. They are read or simulated once per process."""
    if source.kind == "simulated":
        return simulated(source.split, source.images, device)
    if device.type != "cpu":
        return load(source, torch.device("cpu")).to(device)
    return real(source)


def simulated(split: Split, count: int, device: torch.device) -> Recordings:
    """The first `count` images of MNIST's training or test set, recorded by the camera in software on this device."""
    from phased.data.camera import simulate
    from phased.data.mnist import read_mnist

    images, labels = read_mnist(folder_of("mnist"), split)
    if len(images) < count:
        raise ValueError(f"MNIST must have {count} images in its {split} set, got {len(images)}.")
    made = simulate(images[:count].to(device), seed=CAMERA_SEED[split])
    return replace(made, label=labels[:count].to(device), number=torch.arange(1, count + 1, device=device))


def real(source: Source) -> Recordings:
    """Real recordings in the layout of N-MNIST."""
    from phased.data.folder import read_folder

    folder = Path(source.folder) if source.folder else folder_of("nmnist")
    return read_folder(folder / ("Train" if source.split == "train" else "Test"), skip_bad=source.skip_bad)


def has_real(folder: str = "") -> bool:
    """Whether there are real recordings: in the folder, or where PHASED_DATA has them."""
    place = Path(folder) if folder else Path(os.environ.get(VARIABLE, "")) / "nmnist"
    return bool(folder or os.environ.get(VARIABLE)) and (place / "Test").is_dir()


def folder_of(name: str) -> Path:
    """The folder of a data set under the one that PHASED_DATA names; an error if there is none."""
    root = os.environ.get(VARIABLE)
    if not root:
        raise FileNotFoundError(f"the environment variable {VARIABLE} must name the folder with '{name}', but it is not set.")
    folder = Path(root) / name
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder '{folder}'. Set {VARIABLE} to the folder that has '{name}'.")
    return folder
