"""Batches made ahead of the trainer, by other processes; the same numbers whatever their number."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from phased import check
from phased.learn.batch import Batch, Split, Task
from phased.machine import cores


class Place(NamedTuple):
    """Where in the training a batch is used, and its size."""

    split: Split
    epoch: int
    number: int
    size: int


def sizes(sequences: int, batch: int) -> list[int]:
    """The sizes of the batches of an epoch: all `batch`, but the last where it does not come out even."""
    check.size("sequences", sequences)
    check.size("batch", batch)
    return [min(batch, sequences - begin) for begin in range(0, sequences, batch)]


def places(epochs: Iterable[int], train: int, test: int, batch: int) -> list[Place]:
    """All batches of these epochs in the order they are used: an epoch is its training, then its test."""
    splits: list[tuple[Split, int]] = [("train", train), ("test", test)]
    return [
        Place(split, epoch, number, size)
        for epoch in epochs
        for split, sequences in splits
        for number, size in enumerate(sizes(sequences, batch))
    ]


class Batches(Dataset[Batch]):
    """A task's batches as a data set of torch, one for each place."""

    def __init__(self, task: Task, seed: int, at: list[Place]) -> None:
        self.task, self.seed, self.at = task, seed, at

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, n: int) -> Batch:
        return self.task.batch(self.seed, *self.at[n])


def ahead(task: Task, seed: int, at: list[Place], workers: int = 0) -> Iterator[Batch]:
    """The batches in order. Workers start once and run ahead, over the ends of epochs too; without any, each is made when due."""
    # A process that may not have children of its own, such as a dask worker, makes its batches itself.
    workers = 0 if multiprocessing.current_process().daemon else min(workers, cores())
    loader: DataLoader[Any] = DataLoader(
        Batches(task, seed, at),
        batch_size=None,
        num_workers=workers,
        # By name: the default inside joblib's processes is one that torch cannot use.
        multiprocessing_context=("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn") if workers else None,
        worker_init_fn=_one_thread if workers else None,
        generator=torch.Generator(),  # or it would draw from the global one
    )
    return iter(loader)


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)
