"""Training in several processes by Lightning Fabric. No other module imports Lightning."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from phased import lazy

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from phased.learn.batch import Batch


def make(**options: Any) -> Fabric:
    """A Fabric with these options, not launched."""
    what = "Training in several processes, or with another precision than '32-true' and 'bf16-mixed',"
    fabric = lazy.module("lightning.fabric", what, "distributed")
    # On each start Lightning advises a lower precision of float32 products on tensor cores, which would change the results.
    import_module("lightning_utilities.core.rank_zero").log.setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    made: Fabric = fabric.Fabric(**options)
    return made


@cache
def launched(kind: str) -> Fabric:
    """The Fabric of the processes that `torchrun` started, on devices of a type. It is launched once per process."""
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = make(accelerator=kind, strategy="ddp", devices=local, num_nodes=world // local)
    fabric.launch()
    atexit.register(torch.distributed.destroy_process_group)  # threads of gloo that outlive Python abort the process
    return fabric


class NotCast:
    """A batch that Fabric does not look into: in mixed precision it would cast times to half precision."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class Inner(nn.Module):
    """The module that Fabric wraps: a model that takes its batch in a `NotCast`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, hidden: NotCast) -> Tensor:
        """The model's output."""
        answer: Tensor = self.model(hidden.batch)
        return answer


class Processes:
    """The processes of a launched Fabric, with the methods of `phased.learn.device.OneDevice`."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.device: torch.device = fabric.device
        self.world_size, self.global_rank, self.is_global_zero = fabric.world_size, fabric.global_rank, fabric.is_global_zero
        self.precision: str = fabric.strategy.precision.precision

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Callable[[Batch], Tensor], Any]:
        """The call of the model, and the optimiser, wrapped by Fabric."""
        wrapped, made = self.fabric.setup(Inner(model), optimizer)
        return lambda batch: wrapped(NotCast(batch)), made

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss, averaged over all processes."""
        self.fabric.backward(loss)

    def unscale(self, optimizer: Any) -> None:
        """Undo the scale that float16 gives to gradients."""
        self.fabric.strategy.precision.unscale_gradients(getattr(optimizer, "optimizer", optimizer))  # as torch made it

    def step(self, optimizer: Any) -> None:
        """Take a step of the optimiser."""
        optimizer.step()

    def summed(self, values: Tensor) -> Tensor:
        """The sums of the values of all processes."""
        sums: Tensor = self.fabric.all_reduce(values, reduce_op="sum")  # type: ignore[assignment]
        return sums

    def broadcast(self, value: Any) -> Any:
        """The value of the first process."""
        return self.fabric.broadcast(value)

    def barrier(self) -> None:
        """Wait for all processes."""
        self.fabric.barrier()
