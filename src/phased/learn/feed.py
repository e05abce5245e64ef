"""The batches of a training: made ahead by worker processes or on a second stream of the GPU, and divided among processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
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


class Places(Sequence[BatchNumber]):
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
        return BatchNumber(split, self.epochs[epoch], at, size)


def test_places(sequences: int, batch: int) -> list[BatchNumber]:
    """All batches of a test that is no part of an epoch."""
    return [BatchNumber("test", 0, number, size) for number, size in enumerate(sizes(sequences, batch))]


class Batches(Dataset[Batch]):
    """A task's batches as a torch data set, one for each place."""

    def __init__(self, task: Task, seed: int, at: Sequence[BatchNumber]) -> None:
        self.task, self.seed, self.at = task, seed, at

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, n: int) -> Batch:
        return self.task.batch(self.seed, *self.at[n])


def prefetched(task: Task, seed: int, at: Sequence[BatchNumber], workers: int = 0) -> Iterator[Batch]:
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


def on_second_stream(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches in order. On a CUDA device each is made on a second stream, so that making it, and waiting for its size, does
    not wait for the training step before it."""
    return _on_second_stream(batches, device) if device.type == "cuda" else batches


def _on_second_stream(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))  # which may still be writing what batches are made of
    while True:
        with torch.cuda.stream(stream):
            batch = next(batches, None)
        if batch is None:
            return
        training = torch.cuda.current_stream(device)
        training.wait_stream(stream)
        for tensor in _tensors(batch):
            tensor.record_stream(training)  # its memory may be reused only after the training step
        yield batch


def _tensors(batch: Batch) -> Iterator[torch.Tensor]:
    for samples in batch.streams.values():
        yield from (tensor for tensor in samples if tensor.is_cuda)
    yield from (tensor for tensor in (batch.y, batch.mask, batch.segment) if tensor is not None and tensor.is_cuda)


class Part(NamedTuple):
    """One process's part of a batch, the number of its labels, and the number of labels of the whole batch."""

    batch: Batch
    labels: int
    whole: int


class NotCast:
    """A batch that Fabric does not look into: in mixed precision it would cast times to half precision."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class CastFree(nn.Module):
    """Calls a model with the batch in a `NotCast`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, hidden: NotCast) -> Tensor:
        """The model's output."""
        answer: Tensor = self.model(hidden.batch)
        return answer


def shared(batch: Batch, fabric: Devices) -> Part:
    """This process's part of a batch, on its device. Labels are counted before the copy, which avoids a synchronisation."""
    if not isinstance(batch, Batch):
        raise TypeError(f"task.batch must return a phased.learn.Batch, got {check.kind(batch)}.")
    share = batch if fabric.world_size == 1 else batch.share(fabric.global_rank, fabric.world_size)
    return Part(share.to(fabric.device), share.labels, batch.labels)


def shares(task: Task, size: int, seed: int, places: Sequence[BatchNumber], fabric: Devices, workers: int = 0) -> Iterator[Part]:
    """This process's parts of the batches of `size` sequences, in order; made on the device if the task can be copied there."""
    if isinstance(task, Placeable):
        placed = task.to(fabric.device, size)
        batches = on_second_stream(prefetched(placed, seed, places), fabric.device)
    else:
        batches = prefetched(task, seed, places, workers)
    return (shared(batch, fabric) for batch in batches)
