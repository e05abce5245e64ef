"""Real recordings, and the MNIST images that they show."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phased.data.mnist import read_mnist
from phased.data.nmnist import open_recordings
from phased.data.places import find_mnist, find_nmnist
from phased.data.recordings import Recordings

SPLITS = ("train", "test")


class Pairs(NamedTuple):
    """R real recordings, and the image that each of them shows, (R, 28, 28) uint8."""

    recordings: Recordings
    images: Tensor


def load(most: int, splits: tuple[str, ...] = SPLITS, seed: int | None = None) -> Pairs:
    """At most this many real recordings with their images: evenly spread over those there are or, with a seed, at random.

    Raises:
        FileNotFoundError: there are no recordings or no images.
        ValueError: the images are not those of the recordings.
    """
    parts = [pairs for split in splits if (pairs := _split(find_nmnist(), find_mnist(), split)) is not None]
    if not parts:
        raise FileNotFoundError(
            f"expected real recordings in the {' or '.join(splits)} set of N-MNIST, got none in '{find_nmnist()}'. Copy them."
        )
    recordings = Recordings.concatenate([part.recordings for part in parts])
    images = torch.cat([part.images for part in parts])
    count = min(most, len(images))
    if seed is None:
        chosen = torch.linspace(0, len(images) - 1, count).round().long()
    else:
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count]
    return Pairs(recordings.subset(chosen), images[chosen])


def _split(recorded: Path, drawn: Path, split: str) -> Pairs | None:
    """All recordings of the training or the test set with their images; None if there are none."""
    try:
        recordings, _ = open_recordings(recorded, split, skip_bad=True)
    except FileNotFoundError:
        return None
    if not len(recordings):
        return None
    images, labels = read_mnist(drawn, split)
    number, label = recordings.number.numpy(), recordings.label.numpy()
    known = number <= len(labels)
    wrong = np.flatnonzero(~known | (labels[np.where(known, number, 1) - 1] != label))
    if len(wrong):
        raise ValueError(
            f"recordings must be named by the MNIST numbers of their images, got {split} recording {number[wrong[0]]} of the "
            f"digit {label[wrong[0]]}, which is not that image in '{drawn}'. Use the whole of MNIST and N-MNIST's own names."
        )
    return Pairs(recordings, torch.from_numpy(images[number - 1]))
