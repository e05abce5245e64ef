"""One process's parts of the batches, and the module that Fabric wraps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from phased import check
from phased.learn import loader
from phased.learn.batch import Batch, Placeable, Task
from phased.learn.prefetch import prefetched

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class Share(NamedTuple):
    """One process's part of a batch, the number of its labels, and the number of labels of the whole batch."""

    batch: Batch
    labels: int
    whole: int


class Opaque:
    """Hides a batch from Fabric, which under mixed precision would round its times to half precision."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class Unopened(nn.Module):
    """Takes the batch out of its `Opaque` and calls the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, opaque: Opaque) -> Tensor:
        """The model's output."""
        answer: Tensor = self.model(opaque.batch)
        return answer


def shared(batch: Batch, fabric: Fabric) -> Share:
    """This process's part of a batch, on its device. Labels are counted before the copy, which avoids a synchronisation."""
    if not isinstance(batch, Batch):
        raise TypeError(f"task.batch must return a phased.learn.Batch, got {check.kind(batch)}.")
    share = batch if fabric.world_size == 1 else batch.share(fabric.global_rank, fabric.world_size)
    return Share(share.to(fabric.device), share.labels, batch.labels)


def shares(task: Task, size: int, seed: int, places: Sequence[loader.Place], fabric: Fabric, workers: int = 0) -> Iterator[Share]:
    """This process's parts of the batches of `size` sequences, in order; made on the device if the task can be copied there."""
    if isinstance(task, Placeable):
        placed = task.to(fabric.device, size)
        batches = prefetched(loader.ahead(placed, seed, places), fabric.device)
    else:
        batches = loader.ahead(task, seed, places, workers)
    return (shared(batch, fabric) for batch in batches)
