"""The recordings of the experiment: MNIST through the event camera in software, and real N-MNIST recordings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch

from phased.data.nmnist import Member, open_recordings, place_of
from phased.data.nmnist import members as members_in
from phased.data.places import find_mnist, find_nmnist
from phased.data.recordings import Recordings
from phased.data.simulated import simulated_recordings
from phased.files import digest
from phased.learn.batch import SPLITS, Split
from phased_lab.runs.progress import progress

Kind = Literal["simulated", "real"]
CPU = torch.device("cpu")
# The recordings of every run are the same: a run's own seed changes neither noise nor thresholds of the camera.
CAMERA_SEED = {"train": 0, "test": 1}
MOST_LOADED = 6  # sources in memory: those that one run trains and is tested on, real ones also on the CPU
WORDS = {"train": "training", "test": "test"}


@dataclass(frozen=True)
class Source:
    """Recordings of one kind and split."""

    kind: Kind  # "simulated" from MNIST images, or "real"
    split: Split  # the training or the test set, as MNIST and N-MNIST divide them
    images: int = 0  # how many of the MNIST images are simulated, from the first (not used for real recordings)
    folder: str = ""  # MNIST's files, or real recordings in the layout of N-MNIST ("" for PHASED_DATA)
    skip_bad: bool = False  # leave damaged files out, instead of raising an error


def load(source: Source, device: torch.device = CPU) -> Recordings:
    """The recordings of a source on a device. They are read, mapped or simulated once per process."""
    find = find_mnist if source.kind == "simulated" else find_nmnist
    return _loaded(replace(source, folder=str(find(source.folder or None))), device)


@lru_cache(maxsize=MOST_LOADED)
def _loaded(source: Source, device: torch.device) -> Recordings:
    shown = progress(f"{'simulating' if source.kind == 'simulated' else 'reading'} {WORDS[source.split]} recordings")
    if source.kind == "simulated":
        return simulated_recordings(source.folder, source.split, source.images, device, shown, seed=CAMERA_SEED[source.split])
    if device.type != "cpu":
        return _loaded(source, CPU).to(device)
    recordings, skipped = open_recordings(source.folder, source.split, skip_bad=source.skip_bad, progress=shown)
    if skipped:
        warnings.warn(f"{len(skipped)} damaged files were left out, the first: {skipped[0]}", stacklevel=2)
    return recordings


def count(source: Source) -> int:
    """The number of recordings of a source. Files are counted; they are read only if damaged ones are to be left out."""
    if source.kind == "simulated":
        return source.images
    if source.skip_bad:
        return len(load(source))
    return len(members(source.folder, source.split))


def members(folder: str, split: Split) -> list[Member]:
    """Return the real recordings of a split in a folder; "" is PHASED_DATA."""
    return members_in(find_nmnist(folder or None), split)


def identity(folder: str) -> str:
    """A digest of the names and sizes of the real recordings in a folder."""
    find_nmnist(folder)  # an error in a folder without recordings
    found = [
        [(member.number, member.label, member.size) for member in members(folder, split)]
        for split in SPLITS
        if has_real(folder, split)
    ]
    return digest(repr(found).encode()).decode()[:12]


def has_real(folder: str = "", split: Split = "test") -> bool:
    """Return whether a folder has real recordings of this split; "" is PHASED_DATA."""
    try:
        place_of(find_nmnist(folder or None), split)
    except FileNotFoundError:
        return False
    return True
