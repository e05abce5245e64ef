"""A training step: the loss of a batch and its gradients, as Python computes them, or replayed from a recorded CUDA graph."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from phased import openings
from phased.learn.batch import Batch, Samples
from phased.learn.metric import Objective, sum_of_losses
from phased.learn.share import Opaque, Share, Unopened

if TYPE_CHECKING:
    from typing import Self

    from lightning.fabric import Fabric

    from phased.learn.loop import Training

WARM_UP = openings.BATCHES  # steps before the first is recorded: a layer looks at so many batches for units that never open
ROWS = 1 << 17  # steps times sequences of the largest batch that is recorded: larger ones keep a GPU busy by themselves
KEPT = 16  # graphs of the last sizes


@dataclass
class Step:
    """Leaves the gradients of a batch in the parameters, clipped.

    Args:
        module: the model, as Fabric wraps it.
        optimizer: of its parameters, as Fabric wraps it.
        training: the settings.
        fabric: the device or devices.
        objective: the loss; None for the usual one.
    """

    module: Any
    optimizer: Any
    training: Training
    fabric: Fabric
    objective: Objective | None = None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        training: Training,
        fabric: Fabric,
        objective: Objective | None = None,
    ) -> Self:
        """The step of a model, which Fabric moves to its device."""
        module, wrapped = fabric.setup(Unopened(model), optimizer)
        return cls(module, wrapped, training, fabric, objective)

    def __call__(self, share: Share) -> Tensor:
        """The sum of the losses of the batch."""
        batch, _, whole = share
        training, fabric = self.training, self.fabric
        losses = sum_of_losses(self.module(Opaque(batch)), batch, self.objective, training.smoothing)
        # Fabric averages the gradients of all processes. Times their number, this is the gradient of the whole batch's mean loss.
        loss = losses * (fabric.world_size / max(1, whole))
        penalty = self.module.model.penalty() if training.openness_cost else None
        if penalty is not None:
            loss = loss + training.openness_cost * penalty
        self.optimizer.zero_grad()
        # Autograd's own thread for a GPU would have to be woken at every step, and wakes this one at its end.
        with torch.autograd.set_multithreading_enabled(fabric.world_size > 1):
            fabric.backward(loss)
        fabric.clip_gradients(self.module, self.optimizer, max_norm=training.clip, error_if_nonfinite=False)
        return losses.detach()


class Recorded(NamedTuple):
    """A CUDA graph of a step, the sum of the losses that it computes, and the gradients by parameter."""

    graph: Any
    losses: Tensor
    gradients: list[tuple[nn.Parameter, Tensor]]


@dataclass
class RecordedStep(Step):
    """The same on one GPU, with one launch for a step whose size was seen before, in place of some hundred.

    A step of a small network takes a GPU less time than Python needs to launch it. Batches are padded to a few sizes; of each,
    the first step runs as usual, the second is recorded as a CUDA graph, and later ones replay it. Steps that cannot be recorded
    run as usual: of batches with a mask, which are indexed by it, and of large batches.
    """

    _steps: int = field(default=0, init=False)
    _sizes: OrderedDict[tuple[Any, ...], tuple[Share, Recorded | None]] = field(default_factory=OrderedDict, init=False)

    def __call__(self, share: Share) -> Tensor:
        """The sum of the losses of the batch."""
        if not recordable(share.batch):
            return super().__call__(share)
        self._steps += 1
        key = size_of(share)
        seen = key in self._sizes
        kept, recorded = self._sizes.pop(key) if seen else (room_for(share), None)
        fill(kept.batch, share.batch)
        if recorded is None and seen and self._steps > WARM_UP:
            recorded = self._record(kept)
        self._sizes[key] = kept, recorded
        while len(self._sizes) > KEPT:
            self._sizes.popitem(last=False)
        if recorded is None:
            return super().__call__(kept)
        recorded.graph.replay()
        for parameter, gradient in recorded.gradients:
            parameter.grad = gradient
        return recorded.losses

    def _record(self, share: Share) -> Recorded:
        """The graph of a step; nothing runs yet."""
        self.optimizer.zero_grad()  # so that the gradients are in the graph's own memory
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                losses = super().__call__(share)
        except RuntimeError as error:
            raise RuntimeError(
                "a training step of this model cannot be recorded as a CUDA graph: it may not read values of tensors "
                f"or move them to the CPU. Use recorded=False. ({str(error).splitlines()[0]})"
            ) from error
        learned = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        return Recorded(graph, losses, [(parameter, parameter.grad) for parameter in learned if parameter.grad is not None])


def recordable(batch: Batch) -> bool:
    """Whether a step of this batch is recorded."""
    return batch.mask is None and max(stream.time.numel() for stream in batch.streams.values()) <= ROWS


def size_of(share: Share) -> tuple[Any, ...]:
    """What the steps of one recorded graph have in common: the padded sizes, the types, and the labels that the mean is over."""
    streams = share.batch.streams.items()
    sizes = [
        (name, padded_steps(len(stream.x)), tuple(stream.x.shape[1:]), *(part.dtype for part in stream))
        for name, stream in streams
    ]
    return (*sizes, share.batch.y.dtype, share.batch.size, share.whole)


def padded_steps(steps: int) -> int:
    """The next number of steps for which a graph is recorded: at most a quarter more, or 16."""
    apart = max(16, 1 << max(0, steps - 1).bit_length() >> 3)
    return -(-max(1, steps) // apart) * apart


def room_for(share: Share) -> Share:
    """Memory for a batch of this size, with zeros."""
    batch = share.batch
    streams = {
        name: Samples(
            x.new_zeros(padded_steps(len(x)), *x.shape[1:]),
            time.new_zeros(padded_steps(len(x)), *time.shape[1:]),
            torch.zeros_like(lengths),
        )
        for name, (x, time, lengths) in batch.streams.items()
    }
    return Share(Batch(streams, torch.zeros_like(batch.y)), share.labels, share.whole)


def fill(kept: Batch, batch: Batch) -> None:
    """Copy a batch into memory of its size. Padding beyond its own keeps values of earlier batches: no result depends on it."""
    for name, (x, time, lengths) in batch.streams.items():
        own = kept.streams[name]
        own.x[: len(x)].copy_(x)
        own.time[: len(time)].copy_(time)
        own.lengths.copy_(lengths)
    kept.y.copy_(batch.y)
