"""Batch: ragged sequences of samples with their times, from one sensor or several, and their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import check
from phased.schedule import valid_steps

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Array = NDArray[np.float64]
ONLY = "input"  # the name of the stream of a batch with one stream


class Samples(NamedTuple):
    """One stream: B padded sequences of up to T samples, each sequence with its own times.

    Args:
        x: features (T, B, ...), floating point, or indices (T, B), int64.
        time: the time of each sample, (T, B).
        lengths: the number of samples of each sequence, (B,) int64. Later steps are padding, by convention zero.
    """

    x: Tensor
    time: Tensor
    lengths: Tensor


class Place(NamedTuple):
    """The part of a batch that process `rank` of `world` processes computes, and the number of sequences of the whole batch."""

    rank: int
    world: int
    size: int

    @property
    def own(self) -> slice:
        """The sequences of the part."""
        return slice(self.rank, None, self.world)


@dataclass(frozen=True)
class Batch:
    """B sequences and their labels: classes (int64) or numbers to predict (floating point).

    Args:
        streams: samples by the name of their sensor, all of the same B sequences. Each stream has its own times and lengths.
        y: one label per sequence, (B,), or one label per step of the model's output, (T, B).
        mask: None with one label per sequence. With one per step, (T, B) bool: True where the label counts; others are ignored.
        segment: with classes per step, the segment of its sequence that a step belongs to, such as a word of a sentence, (T, B)
            int64 from 0 up. A segment has one class. Its answer in a test is the class with the largest sum of log-probabilities
            over its steps; training uses every step. None: every step has an answer of its own.
        place: the part of a whole batch that these sequences are, or None for a whole batch.

    Raises:
        TypeError: a part is not a tensor.
        ValueError: the shapes do not match, there is no stream, labels are neither int64 nor floating point, the mask is not
            bool or counts padding, or there are segments without classes per step.

    Example:
        >>> import torch
        >>> from phased.learn import Batch
        >>> time = torch.rand(20, 4, dtype=torch.float64).cumsum(0)
        >>> batch = Batch.of(torch.randn(20, 4, 3), time, lengths=torch.tensor([20, 7, 12, 20]), y=torch.tensor([0, 9, 3, 3]))
        >>> batch.size
        4
    """

    streams: Mapping[str, Samples]
    y: Tensor
    mask: Tensor | None = None
    segment: Tensor | None = None
    place: Place | None = None

    @classmethod
    def of(
        cls, x: Tensor, time: Tensor, lengths: Tensor, y: Tensor, mask: Tensor | None = None, segment: Tensor | None = None
    ) -> Batch:
        """A batch with one stream; for the arguments see `Samples` and `Batch`."""
        return cls({ONLY: Samples(x, time, lengths)}, y, mask, segment)

    def __post_init__(self) -> None:
        if not self.streams:
            raise ValueError("a batch must have at least one stream, got none.")
        for name, stream in self.streams.items():
            for part, tensor in zip(Samples._fields, stream, strict=True):
                check.tensor(f"{part} of stream {name!r}", tensor)
        check.tensor("y", self.y)
        if self.y.dtype != torch.int64 and not self.y.is_floating_point():
            raise ValueError(f"y must be int64 for classes, or floating point for numbers, got {self.y.dtype}. Use y.long().")
        size, per_step = (self.size,), f"(steps, {self.size})"
        for name, (x, time, lengths) in self.streams.items():
            of = f"of stream {name!r} must"
            fits(lengths.dim() == 1, f"lengths {of} have shape (sequences,)", lengths)
            fits(lengths.shape == size, f"lengths {of} have shape {size}", lengths)
            fits(time.dim() == 2 and time.shape[1:] == size, f"time {of} have shape {per_step}", time)
            fits(x.shape[:2] == time.shape, f"x {of} begin with the shape of its time, {tuple(time.shape)}", x)
        if self.mask is None:
            cure = f" Pass a mask, {per_step} bool, if every step has a label."
            fits(self.y.shape == size, f"y must have shape {size}, one label per sequence", self.y, cure=cure)
        else:
            right = self.y.shape == self.mask.shape and self.y.dim() == 2 and self.y.shape[1:] == size
            fits(right, f"y and mask must both have shape {per_step}", self.y, self.mask)
            if self.mask.dtype != torch.bool:
                raise ValueError(f"mask must be bool, True where a label counts, got {self.mask.dtype}.")
            if self._counts_padding(self.mask):
                raise ValueError("mask must be False after the end of a sequence, got True there. Use mask & (steps < lengths).")
        if self.segment is not None:
            check.tensor("segment", self.segment)
            if self.mask is None or self.y.is_floating_point():
                raise ValueError(
                    "segment is for classes per step, with a mask: y must be int64, (steps, sequences), and have a mask."
                )
            if self.segment.shape != self.y.shape or self.segment.dtype != torch.int64:
                wanted, got = tuple(self.y.shape), f"{self.segment.dtype}, {tuple(self.segment.shape)}"
                raise ValueError(f"segment must be int64 with the shape of y, {wanted}, got {got}.")

    def _counts_padding(self, mask: Tensor) -> bool:
        """Whether labels of padding count. False for several streams, and on a GPU, where reading values would synchronise."""
        if len(self.streams) > 1 or mask.shape != self.samples.time.shape or not (mask.is_cpu and self.samples.lengths.is_cpu):
            return False
        return bool((mask & ~valid_steps(len(mask), self.samples.lengths)).any())

    @property
    def samples(self) -> Samples:
        """The only stream; a ValueError if there are several."""
        if len(self.streams) > 1:
            raise ValueError(f"the batch must have one stream here, got {', '.join(map(repr, self.streams))}. Use batch.streams.")
        return next(iter(self.streams.values()))

    @property
    def size(self) -> int:
        """The number of sequences."""
        return len(next(iter(self.streams.values())).lengths)

    @property
    def labels(self) -> int:
        """The number of labels that count."""
        return self.size if self.mask is None else int(self.mask.sum())

    @property
    def tensors(self) -> list[Tensor]:
        """Every tensor of the batch."""
        samples = [part for stream in self.streams.values() for part in stream]
        return [*samples, *(part for part in (self.y, self.mask, self.segment) if part is not None)]

    def map(self, change: Callable[[Tensor], Tensor], place: Place | None = None) -> Batch:
        """A batch of changed tensors, at this place of a whole batch."""
        streams = {name: Samples(*map(change, samples)) for name, samples in self.streams.items()}
        mask, segment = (None if part is None else change(part) for part in (self.mask, self.segment))
        return Batch(streams, change(self.y), mask, segment, place)

    def to(self, device: torch.device | str) -> Batch:
        """A copy on another device; the batch itself if it is there."""
        if all(tensor.device == torch.device(device) for tensor in self.tensors):
            return self
        return self.map(lambda tensor: tensor.to(device, non_blocking=True), self.place)

    def share(self, rank: int, world: int) -> Batch:
        """The sequences of process `rank` of `world` processes; each sequence belongs to exactly one process."""
        place = Place(rank, world, self.size)
        return self.map(lambda tensor: tensor[place.own] if tensor.dim() == 1 else tensor[:, place.own], place)


def fits(right: bool, expected: str, *got: Tensor, cure: str = "") -> None:
    """Raise a ValueError with the shapes of tensors unless they are right."""
    if not right:
        raise ValueError(f"{expected}, got {' and '.join(str(tuple(tensor.shape)) for tensor in got)}.{cure}")


class Task(Protocol):
    """What a network is trained on: an unlimited number of batches, each a pure function of the arguments of `batch`."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Batch number `index` of an epoch, with `size` sequences. Equal arguments give equal batches, in any order of calls."""
        ...


@runtime_checkable
class Placeable(Protocol):
    """A task with data of its own, which can be copied to a device. Batches are then made there, without worker processes."""

    def to(self, device: torch.device, size: int) -> Task:
        """The task on a device, for epochs divided into batches of `size` sequences, of which the last may be smaller."""
        ...


class Evaluation(NamedTuple):
    """A test of the trained network: on `sequences` sequences of a task's split "test"."""

    task: Task
    sequences: int


@runtime_checkable
class Evaluated(Protocol):
    """A task with further tests, which are evaluated once, after the last epoch."""

    def evaluations(self) -> Mapping[str, Evaluation]:
        """The further tests by name."""
        ...


def generator(task: int, seed: int, split: Split, epoch: int, index: int, size: int) -> np.random.Generator:
    """The random generator of one batch: each combination of the arguments has an independent stream."""
    check.choice("split", split, SPLITS)
    check.positive_int("size", size)
    return np.random.default_rng(np.random.SeedSequence([task, seed, SPLITS.index(split), epoch, index, size]))


def padded(x: Array, time: Array, lengths: NDArray[np.int64], y: NDArray[np.generic]) -> Batch:
    """A batch from x (T, B, D), time (T, B), lengths (B,) and y (B,), with zeros after the end of each sequence."""
    real = np.arange(len(time))[:, None] < lengths
    return Batch.of(
        torch.from_numpy((x * real[..., None]).astype(np.float32)),
        torch.from_numpy(np.where(real, time, 0.0)),
        torch.from_numpy(lengths),
        torch.from_numpy(y),
    )
