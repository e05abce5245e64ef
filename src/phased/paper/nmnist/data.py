"""The recordings of the experiment: MNIST through the event camera in software, and real N-MNIST recordings."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from phased.data import Recordings, read_native
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
        folder: MNIST's files, or real recordings in the layout of N-MNIST; "" for `mnist` or `nmnist` in the folder that
            PHASED_DATA names.
        skip_bad: leave damaged files out, instead of raising an error.
    """

    kind: Kind
    split: Split
    images: int = 0
    folder: str = ""
    skip_bad: bool = False


def count(source: Source) -> int:
    """The number of recordings of a source."""
    return source.images if source.kind == "simulated" else len(load(source, torch.device("cpu")))


def load(source: Source, device: torch.device) -> Recordings:
    """The recordings of a source on a device. They are read or simulated once per process."""
    folder = source.folder or str(folder_of("mnist" if source.kind == "simulated" else "nmnist"))
    return _loaded(replace(source, folder=folder), device)


@cache
def _loaded(source: Source, device: torch.device) -> Recordings:
    if source.kind == "simulated":
        return simulated(Path(source.folder), source.split, source.images, device)
    return real(source) if device.type == "cpu" else load(source, torch.device("cpu")).to(device)


def simulated(folder: Path, split: Split, count: int, device: torch.device) -> Recordings:
    """The first `count` images of MNIST's training or test set, recorded by the camera in software on this device."""
    from phased.data.camera import simulate

    images, labels = mnist(folder, split)
    if len(images) < count:
        raise ValueError(f"MNIST must have {count} images in its {split} set, got {len(images)} in '{folder}'.")
    return simulate(images[:count].to(device), labels[:count], seed=CAMERA_SEED[split])


def mnist(folder: Path, split: Split) -> tuple[Tensor, Tensor]:
    """MNIST's images (N, 28, 28) uint8 and labels (N,) int64."""
    parts = []
    for kind, skipped in (("images", 16), ("labels", 8)):
        (file,) = folder.glob(f"{'train' if split == 'train' else 't10k'}-{kind}*.gz")
        parts.append(torch.from_numpy(np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8, offset=skipped).copy()))
    return parts[0].view(-1, 28, 28), parts[1].long()


def real(source: Source) -> Recordings:
    """Real recordings in the layout of N-MNIST."""
    folder = Path(source.folder) / ("Train" if source.split == "train" else "Test")
    files = sorted(folder.glob("*/*.bin"))
    if not files:
        raise FileNotFoundError(f"there are no recordings in '{folder}'. Name a folder in the layout of N-MNIST.")
    found = [read_native(file) for file in files]
    return Recordings.of(found, [int(file.parent.name) for file in files], [int(file.stem) for file in files])


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
