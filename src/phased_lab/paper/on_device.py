"""Tasks whose sequences are loaded onto a device, where batches of them are gathered and changed at random."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from phased.learn.batch import Batch, Split

CPU = torch.device("cpu")


class Loadable:
    """Base class of tasks that compute batches `OnDevice`."""

    def to(self, device: torch.device, size: int) -> OnDevice:
        """Load the sequences onto a device, for batches of `size`."""
        raise NotImplementedError

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Return a batch on the CPU. All earlier batches have the same size."""
        return self.to(CPU, size).batch(seed, split, epoch, index, size)


class OnDevice:
    """Base class of a task's sequences on a device. Loading is not part of the first epoch.

    Each training epoch visits its sequences in a new random order. A test visits them in the order of the data.

    Args:
        stream: identifies the task's random numbers.
        rows: the sequences that an epoch of each split visits, on the CPU, so that sizes of batches are known there.
        device: where batches are made.
        size: of every batch but the last of an epoch.
    """

    def __init__(self, stream: int, rows: Mapping[str, Tensor], device: torch.device, size: int) -> None:
        self.stream, self.rows, self.device, self.size = stream, rows, device, size
        self.random = torch.Generator(device)
        self._order: tuple[tuple[int, int], Tensor] | None = None

    def gather(self, split: Split, rows: Tensor) -> Batch:
        """Return the batch of these sequences. Random changes are drawn from `random`."""
        raise NotImplementedError

    def key(self, seed: int, split: Split, epoch: int) -> tuple[int, ...]:
        """Return the seeds of a batch's random numbers, beside its index and its size."""
        return seed, epoch

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Return batch number `index` of a training epoch or of the test."""
        rows, begin = self.order(seed, epoch) if split == "train" else self.rows["test"], index * self.size
        if begin + size > len(rows):
            raise ValueError(f"an epoch must have at most {len(rows)} sequences, those of the task, got more.")
        self.random.manual_seed(drawn_from(self.stream, *self.key(seed, split, epoch), index, size))
        return self.gather(split, rows[begin : begin + size])

    def order(self, seed: int, epoch: int) -> Tensor:
        """Return the sequences in the order of a training epoch. The last order is cached."""
        if self._order is None or self._order[0] != (seed, epoch):
            random = torch.Generator().manual_seed(drawn_from(self.stream, seed, epoch))
            rows = self.rows["train"]
            self._order = (seed, epoch), rows[torch.randperm(len(rows), generator=random)]
        return self._order[1]

    def uniform(self, *shape: int) -> Tensor:
        """Random numbers from -1 to 1, float32."""
        return 2 * torch.rand(shape, generator=self.random, device=self.device, dtype=torch.float32) - 1

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Normal deviates."""
        return torch.randn(shape, generator=self.random, device=self.device, dtype=dtype)


def drawn_from(*numbers: int) -> int:
    """A seed for torch's generators: independent for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
