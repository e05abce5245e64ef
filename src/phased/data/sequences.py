"""Batch: sequences of samples with their times, ragged, padded with zeros on the right; and what a task is."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import check

Split = Literal["train", "test"]
SPLITS: tuple[str, ...] = get_args(Split)
Array = NDArray[np.float64]


class Batch(NamedTuple):
    """B sequences of up to T steps. y are classes (int64) or targets (float32); after a sequence's end everything is zero."""

    x: Tensor  # (T, B, D) float32
    time: Tensor  # (T, B) float64
    lengths: Tensor  # (B,) int64
    y: Tensor  # (B,)

    @property
    def size(self) -> int:
        """How many sequences there are."""
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        """The same on another device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def share(self, rank: int, world: int) -> Batch:
        """The sequences of one of `world` processes; together they have each sequence once."""
        mine = slice(rank, None, world)
        return Batch(self.x[:, mine], self.time[:, mine], self.lengths[mine], self.y[mine])


class Task(Protocol):
    """What a network is trained on: sequences without end, each a function of the numbers that name it and of nothing else."""

    @property
    def features(self) -> int:
        """Input features of a step; time is not one of them."""
        ...

    @property
    def classes(self) -> int | None:
        """How many classes there are; None where y is a number to be predicted."""
        ...

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Batch number `index` of an epoch, with `size` sequences: the same whoever asks, in any order."""
        ...


def generator(task: int, seed: int, split: Split, epoch: int, index: int, size: int) -> np.random.Generator:
    """The random numbers of one batch: a stream of its own for each combination of these numbers."""
    check.choice("split", split, SPLITS)
    check.size("size", size)
    return np.random.default_rng(np.random.SeedSequence([task, seed, SPLITS.index(split), epoch, index, size]))


def padded(x: Array, time: Array, lengths: NDArray[np.int64], y: NDArray[np.generic]) -> Batch:
    """A batch from x (T, B, D), time (T, B), lengths (B,) and y (B,), with zeros wherever a sequence is over."""
    real = np.arange(len(time))[:, None] < lengths
    return Batch(
        torch.from_numpy((x * real[..., None]).astype(np.float32)),
        torch.from_numpy(np.where(real, time, 0.0)),
        torch.from_numpy(lengths),
        torch.from_numpy(y),
    )
