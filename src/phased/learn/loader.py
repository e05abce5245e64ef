"""Batches prefetched by worker processes; their number does not change the batches."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from phased import check
from phased.learn.batch import Batch, Split, Task
from phased.machine import cores


class Place(NamedTuple):
    """The position of a batch in the training, and its size."""

    split: Split
    epoch: int
    number: int
    size: int


def sizes(sequences: int, batch: int) -> list[int]:
    """The sizes of the batches of an epoch: all are `batch`, except that the last may be smaller."""
    check.size("sequences", sequences)
    check.size("batch", batch)
    return [min(batch, sequences - begin) for begin in range(0, sequences, batch)]


class Places(Sequence[Place]):
    """All batches of some epochs in the order they are used: in each epoch training, then test. Each is made when needed."""

    def __init__(self, epochs: Sequence[int], train: int, test: int, batch: int) -> None:
        splits: list[tuple[Split, int]] = [("train", train), ("test", test)]
        self.epochs = epochs
        self.each = [(split, at, size) for split, count in splits for at, size in enumerate(sizes(count, batch))]

    def __len__(self) -> int:
        return len(self.epochs) * len(self.each)

    def __getitem__(self, n: Any) -> Any:
        epoch, place = divmod(range(len(self))[n], len(self.each))
        split, at, size = self.each[place]
        return Place(split, self.epochs[epoch], at, size)


def test_places(sequences: int, batch: int) -> list[Place]:
    """All batches of a test that is no part of an epoch."""
    return [Place("test", 0, number, size) for number, size in enumerate(sizes(sequences, batch))]


class Batches(Dataset[Batch]):
    """A task's batches as a torch data set, one for each place."""

    def __init__(self, task: Task, seed: int, at: Sequence[Place]) -> None:
        self.task, self.seed, self.at = task, seed, at

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, n: int) -> Batch:
        return self.task.batch(self.seed, *self.at[n])


def ahead(task: Task, seed: int, at: Sequence[Place], workers: int = 0) -> Iterator[Batch]:
    """The batches in order. Workers start once and prefetch across epochs; without workers each batch is made when needed."""
    # Daemonic processes, such as dask workers, may not have child processes.
    workers = 0 if multiprocessing.current_process().daemon else min(workers, cores())
    batches = Batches(task, seed, at)
    if not workers:
        return map(batches.__getitem__, range(len(batches)))
    loader: DataLoader[Any] = DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        # Named explicitly: the default start method of a process is that of its parent, which may be another one.
        multiprocessing_context="fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn",
        worker_init_fn=_one_thread,
        generator=torch.Generator(),  # otherwise the loader would draw from the global generator
    )
    return iter(loader)


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)
