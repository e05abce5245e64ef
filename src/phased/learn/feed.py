"""The batches of a training: made ahead by worker processes or on a second stream of the GPU, and divided among processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from phased import check
from phased.learn.batch import Batch, Placeable, Split, Task
from phased.machine import cores

if TYPE_CHECKING:
    from phased.learn.device import Devices


class BatchNumber(NamedTuple):
    """The position of a batch in the training, and its size."""

    split: Split
    epoch: int
    number: int
    size: int


def sizes(sequences: int, batch: int) -> list[int]:
    """The sizes of the batches of an epoch: all are `batch`, except that the last may be smaller."""
    check.positive_int("sequences", sequences)
    check.positive_int("batch", batch)
    return [min(batch, sequences - begin) for begin in range(0, sequences, batch)]


def numbered(split: Split, epoch: int, sequences: int, batch: int) -> list[BatchNumber]:
    """The batches of one split of an epoch."""
    return [BatchNumber(split, epoch, number, size) for number, size in enumerate(sizes(sequences, batch))]


def numbered_epochs(epochs: Iterable[int], train: int, test: int, batch: int) -> Iterator[BatchNumber]:
    """The batches of some epochs in the order they are used: in each epoch training, then test."""
    for epoch in epochs:
        yield from numbered("train", epoch, train, batch)
        yield from numbered("test", epoch, test, batch)


class Batches(Dataset[Batch]):
    """A task's batches as a torch data set."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed

    def __getitem__(self, at: BatchNumber) -> Batch:
        return self.task.batch(self.seed, *at)


def prefetched(task: Task, seed: int, places: Iterable[BatchNumber], workers: int = 0) -> Iterator[Batch]:
    """The batches in order. Workers start once and prefetch across epochs; without workers each batch is made when needed."""
    # Daemonic processes, such as dask workers, may not have child processes.
    workers = 0 if multiprocessing.current_process().daemon else min(workers, cores())
    batches = Batches(task, seed)
    if not workers:
        return map(batches.__getitem__, places)
    loader: DataLoader[Any] = DataLoader(
        batches,
        batch_size=None,
        sampler=places,
        num_workers=workers,
        # Named explicitly: the default start method of a process is that of its parent, which may be another one.
        multiprocessing_context="fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn",
        worker_init_fn=_one_thread,
        generator=torch.Generator(),  # otherwise the loader would draw from the global generator
    )
    return iter(loader)


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)


def on_second_stream(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches in order, each made on a second stream of a CUDA device, so that making it, and waiting for its size, does not
    wait for the training step before it."""
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))  # which may still be writing what batches are made of
    while True:
        with torch.cuda.stream(stream):
            batch = next(batches, None)
        if batch is None:
            return
        training = torch.cuda.current_stream(device)
        training.wait_stream(stream)
        for tensor in batch.tensors:
            if tensor.is_cuda:
                tensor.record_stream(training)  # its memory may be reused only after the training step
        yield batch


class Part(NamedTuple):
    """One process's part of a batch, the number of its labels, and the number of labels of the whole batch."""

    batch: Batch
    labels: int
    whole: int


def shared(batch: Batch, fabric: Devices) -> Part:
    """This process's part of a batch, on its device. Labels are counted before the copy, which avoids a synchronisation."""
    if not isinstance(batch, Batch):
        raise TypeError(f"task.batch must return a phased.learn.Batch, got {check.kind(batch)}.")
    share = batch if fabric.world_size == 1 else batch.share(fabric.global_rank, fabric.world_size)
    return Part(share.to(fabric.device), share.labels, batch.labels)


def shares(task: Task, size: int, seed: int, places: Iterable[BatchNumber], fabric: Devices, workers: int = 0) -> Iterator[Part]:
    """This process's parts of the batches of `size` sequences, in order; made on the device if the task can be copied there."""
    if isinstance(task, Placeable):
        batches = prefetched(task.to(fabric.device, size), seed, places)
        if fabric.device.type == "cuda":
            batches = on_second_stream(batches, fabric.device)
    else:
        batches = prefetched(task, seed, places, workers)
    return (shared(batch, fabric) for batch in batches)
