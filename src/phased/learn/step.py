"""A training step: the loss of a batch and its gradients, as Python computes them, or replayed from a recorded CUDA graph."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from phased import openings, tracing
from phased.learn.batch import Batch, Samples
from phased.learn.feed import Part
from phased.learn.metric import Objective, sum_of_losses
from phased.learn.model import Model

if TYPE_CHECKING:
    from phased.learn.device import Devices
    from phased.learn.loop import Training

WARM_UP = openings.BATCHES
"""Steps before one is recorded: layers check this many batches for units that never open, which reads values of tensors."""

ROWS = 1 << 17
"""Steps times sequences of the largest batch that is recorded: larger ones keep a GPU busy by themselves."""

SIZES = 32
"""Sizes whose memory, and graph if there is one, are kept."""


@dataclass
class Step:
    """Training step: computes the gradients of the parameters for a batch, and clips the gradients in place.

    Args:
        model: the model, which is moved to the device of `fabric`.
        optimizer: optimiser of the parameters.
        training: the settings.
        fabric: the device or devices. They wrap model and optimiser for mixed precision or several processes.
        objective: the loss. Default: cross entropy of classes, squared error of numbers.
        charged: current factor of the openness cost: a number, or a tensor that a recorded step reads.
    """

    model: Any
    optimizer: Any
    training: Training
    fabric: Devices
    objective: Objective | None = None
    charged: float | Tensor = 1.0
    module: Callable[[Batch], Tensor] = field(init=False)  # the call of the model on the devices

    def __post_init__(self) -> None:
        self.module, self.optimizer = self.fabric.setup(self.model, self.optimizer)

    def __call__(self, share: Part) -> Tensor:
        """The sum of the losses of the batch."""
        batch, _, whole = share
        training, fabric = self.training, self.fabric
        losses = sum_of_losses(self.module(batch), batch, self.objective, training.smoothing)
        # The gradients of all processes are averaged. Times their number, this is the gradient of the whole batch's mean loss.
        loss = losses * (fabric.world_size / max(1, whole))
        prior = self.model.prior() if isinstance(self.model, Model) else None
        if prior is not None:
            loss = loss + prior
        penalty = self.model.penalty() if training.openness_cost else None
        if penalty is not None:
            loss = loss + training.openness_cost * self.charged * penalty
        learned = self.learned()
        for parameter in learned:
            parameter.grad = None
        # Backward in this thread: handing it to autograd's GPU thread and back costs more than a small step.
        with torch.autograd.set_multithreading_enabled(fabric.world_size > 1):
            fabric.backward(loss)
        fabric.unscale(self.optimizer)
        clip([parameter.grad for parameter in learned if parameter.grad is not None], training.clip)
        return losses.detach()

    def charge(self, part: float) -> None:
        """Set the factor of the openness cost for the next steps."""
        if not isinstance(self.charged, Tensor):  # a recorded step reads the number from the device
            self.charged = torch.zeros((), dtype=torch.float64, device=self.fabric.device)
        self.charged.fill_(part)

    def learned(self) -> list[nn.Parameter]:
        """Return the parameters that the optimiser changes."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


@torch.no_grad()
def clip(gradients: list[Tensor], most: float) -> None:
    """Scale gradients so that the norm of all together is at most `most`. No value is read, which would wait for a GPU."""
    if gradients:
        norm = torch.linalg.vector_norm(torch.stack(tracing.norms(gradients)))
        tracing.multiply_(gradients, (most / (norm + 1e-6)).clamp(max=1.0))


class Graph(NamedTuple):
    """A recorded step, the sum of the losses that it computes, and every parameter with its gradient, or None if it has none."""

    graph: Any
    losses: Tensor
    gradients: list[tuple[nn.Parameter, Tensor | None]]


@dataclass
class RecordedStep(Step):
    """The same on one GPU, with one launch for a step of a size that was recorded, in place of several hundred.

    A step of a small network takes a GPU less time than Python needs to launch it. Batches are padded to a few sizes. After the
    first WARM_UP steps, the second step of a size is recorded as a CUDA graph, and later ones replay it. Steps that cannot be
    recorded run as usual: of batches with a mask, which are indexed by it, and of large batches.
    """

    _steps: int = field(default=0, init=False)
    _sizes: OrderedDict[tuple[Any, ...], tuple[Part, Graph | None]] = field(default_factory=OrderedDict, init=False)
    _pool: Any = field(default=None, init=False)  # memory that all graphs share: never do two of them run at once

    def __call__(self, share: Part) -> Tensor:
        """The sum of the losses of the batch; the next step may overwrite it."""
        if not recordable(share.batch):
            return super().__call__(share)
        self._steps += 1
        size = size_of(share)
        seen = size in self._sizes
        kept, recorded = self._sizes.pop(size) if seen else (room_for(share), None)
        fill(kept.batch, share.batch)
        if recorded is None and seen and self._steps > WARM_UP:
            recorded = self._record(kept)
        self._sizes[size] = kept, recorded
        while len(self._sizes) > SIZES:
            self._sizes.popitem(last=False)
        if recorded is None:
            return super().__call__(kept)
        recorded.graph.replay()
        for parameter, gradient in recorded.gradients:
            parameter.grad = gradient
        return recorded.losses

    def _record(self, share: Part) -> Graph:
        """The graph of a step; nothing runs yet."""
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        try:
            # A recording that fails leaves its own stream as the current one; the outer block restores the stream before it.
            with (
                torch.cuda.stream(torch.cuda.current_stream()),
                torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
            ):
                losses = super().__call__(share)
        except RuntimeError as error:
            release_generator(self.fabric.device)
            cause = error.__context__ or error  # the end of a recording that has failed raises an error of its own
            if isinstance(cause, torch.OutOfMemoryError):
                why = "it has memory for all units being open. Use smaller batches, or recorded=False."
            else:
                why = "it may not read values of tensors or move them to the CPU. Use recorded=False."
            raise RuntimeError(
                f"a training step of this model cannot be recorded as a CUDA graph: {why} ({str(cause).splitlines()[0]})"
            ) from error
        return Graph(graph, losses, [(parameter, parameter.grad) for parameter in self.learned()])


def release_generator(device: torch.device) -> None:
    """Let a GPU draw random numbers again. A recording that failed leaves its generator in use; a copy of its state is not."""
    if device.type == "cuda":
        generator = torch.cuda.default_generators[device.index]
        generator.graphsafe_set_state(generator.clone_state())


def recordable(batch: Batch) -> bool:
    """Whether a step of this batch is recorded."""
    return batch.mask is None and max(stream.time.numel() for stream in batch.streams.values()) <= ROWS


def size_of(share: Part) -> tuple[Any, ...]:
    """What the steps of one recorded graph have in common: the padded sizes, the types, and the labels that the mean is over."""
    streams = share.batch.streams.items()
    sizes = [
        (name, padded_steps(len(stream.x)), tuple(stream.x.shape[1:]), *(part.dtype for part in stream))
        for name, stream in streams
    ]
    return (*sizes, share.batch.y.dtype, share.batch.size, share.whole)


def padded_steps(steps: int) -> int:
    """The number of steps that a batch is padded to: at most a quarter more, or the next multiple of 16."""
    apart = max(16, 1 << max(0, steps - 1).bit_length() >> 3)
    return -(-max(1, steps) // apart) * apart


def room_for(share: Part) -> Part:
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
    return Part(Batch(streams, torch.zeros_like(batch.y)), share.labels, share.whole)


def fill(kept: Batch, batch: Batch) -> None:
    """Copy a batch into memory of its size, with zeros after its last step."""
    for name, (x, time, lengths) in batch.streams.items():
        own = kept.streams[name]
        for to, given in ((own.x, x), (own.time, time)):
            to[: len(given)].copy_(given)
            to[len(given) :].zero_()
        own.lengths.copy_(lengths)
    kept.y.copy_(batch.y)
