"""The adding task (Fig. 4b): of about 500 numbers two are marked, one early and one late; the label is their sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phased import check
from phased.learn.batch import Batch, Split, generator, padded

STREAM = 0xADD  # identifies this task's random numbers


@dataclass(frozen=True)
class Adding:
    """Numbers from U(-0.5, 0.5), one per step, the first at time 0; the features are the number and its mark, y is the sum."""

    length: tuple[int, int] = (490, 510)  # shortest and longest, inclusive

    def __post_init__(self) -> None:
        for end in self.length:
            check.size("length", end)
        check.interval("length", *self.length)
        if self.length[0] < 10:
            raise ValueError(f"length must be at least 10, or the first tenth is empty, got {self.length[0]}.")

    @property
    def features(self) -> int:
        """The number, and its mark: 1 if it is added, else 0."""
        return 2

    @property
    def classes(self) -> None:
        """None: a regression."""
        return

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """One mark in the first 10 % of each sequence, one in its last half."""
        random = generator(STREAM, seed, split, epoch, index, size)
        lengths = random.integers(*self.length, size=size, endpoint=True)
        steps, sequences = lengths.max(), np.arange(size)
        values = random.uniform(-0.5, 0.5, (steps, size))
        early = random.integers(0, lengths // 10)
        late = random.integers((lengths + 1) // 2, lengths)
        marks = np.zeros((steps, size))
        marks[early, sequences] = marks[late, sequences] = 1.0
        # Summed after rounding to float32, as the network receives them, so that the label is exact.
        y = (values.astype(np.float32) * marks).sum(0).astype(np.float32)
        time = np.broadcast_to(np.arange(steps, dtype=np.float64)[:, None], (steps, size))
        return padded(np.stack([values, marks], -1), time, lengths, y)
