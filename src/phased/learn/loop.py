"""The one training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from phased import check
from phased.learn import loader
from phased.learn.batch import Batch, Task
from phased.learn.model import Model
from phased.learn.store import Epoch, Store

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@dataclass(frozen=True)
class Training:
    """How to train. An epoch is `train` new sequences, and a test on `test` more."""

    epochs: int = 70
    train: int = 5000
    test: int = 500
    batch: int = 32
    # Adam's default, and the authors'.
    rate: float = 1e-3
    # The norm that gradients are scaled down to. The period's gradient grows with time, so some bound is needed.
    clip: float = 1.0
    # How much of the open ratios' mean square is added to the loss (`phased.cost.openness_cost`).
    openness_cost: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "train", "test", "batch"):
            check.size(name, getattr(self, name))
        for name in ("rate", "clip"):
            check.number(name, getattr(self, name), low=0.0, low_open=True)
        check.number("openness_cost", self.openness_cost, low=0.0)


@dataclass(frozen=True)
class Trained:
    """The learning curve, and how many of its epochs an earlier run had left in a checkpoint."""

    curve: list[Epoch]
    resumed: int

    @property
    def wall(self) -> float:
        """Seconds spent on all epochs, those before an interruption included."""
        return math.fsum(epoch.seconds for epoch in self.curve)


Progress = Callable[[Epoch], None]


def fit(
    task: Task,
    model: Model,
    training: Training,
    folder: Path,
    fabric: Fabric,
    progress: Progress | None = None,
    workers: int = 0,
) -> Trained:
    """Train a model in place, or go on where a checkpoint in the folder left off.

    Every epoch ends with a checkpoint and a line in the log; a run that was killed and resumed gives an unbroken one's numbers.
    Batches are pure functions of the seed, and each epoch seeds torch anew, so weights, Adam's averages and the curve are all
    there is to keep.

    Args:
        task: makes the batches, by number.
        model: what is trained; see `phased.learn.Model`.
        training: for how long, and how.
        folder: for the checkpoint and the log; made if need be.
        fabric: where to train (`phased.learn.make_fabric`).
        progress: called with every finished epoch, in the process that called `fit`.
        workers: processes that make batches ahead; 0 makes each when it is needed.

    Returns:
        The learning curve, epochs of an earlier, interrupted call included.

    Raises:
        ValueError: the folder holds the checkpoint of another training, or batches are too small for the number of processes.
        FloatingPointError: the loss is not finite.
    """
    check_model(model)
    smallest = min(*loader.sizes(training.train, training.batch), *loader.sizes(training.test, training.batch))
    if smallest < fabric.world_size:
        raise ValueError(
            f"every batch must have a sequence for each of the {fabric.world_size} processes, but one has {smallest}. "
            f"Choose train and test as multiples of batch."
        )
    identity = {"task": repr(task), "model": repr(model), **asdict(training)}
    del identity["epochs"]  # more epochs are more of the same training
    optimizer: Any = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=training.rate)
    module, optimizer = fabric.setup(Unopened(model), optimizer)
    store = Store(folder, identity, fabric)
    curve = store.resume(model, optimizer, training.epochs)
    resumed = len(curve)
    if not curve:  # a disk that is full is found out before the work
        store.make_room(model)
        store.keep(model, optimizer, curve)
    epochs = range(resumed + 1, training.epochs + 1)
    places = loader.places(epochs, training.train, training.test, training.batch)
    batches = (shared(batch, fabric) for batch in loader.ahead(task, training.seed, places, workers))
    steps, tests = (len(loader.sizes(count, training.batch)) for count in (training.train, training.test))
    with flushed_denormals():
        for epoch in epochs:
            begin = time.perf_counter()
            torch.manual_seed(epoch_seed(training.seed, epoch, fabric.global_rank))
            loss = train_once(module, optimizer, islice(batches, steps), training, fabric)
            if not math.isfinite(loss):
                raise FloatingPointError(f"the loss of epoch {epoch} is {loss}. Try a smaller rate than {training.rate:g}.")
            test, opened = evaluate(module, islice(batches, tests), fabric)
            curve.append(Epoch(epoch, loss, test, time.perf_counter() - begin, opened))
            store.keep(model, optimizer, curve)
            if progress is not None and fabric.is_global_zero:
                progress(curve[-1])
    return Trained(curve, resumed)


def check_model(model: object) -> None:
    """A TypeError for what cannot be trained."""
    lacking = [name for name in ("forward", "updates", "penalty") if not callable(getattr(model, name, None))]
    if not isinstance(model, nn.Module) or lacking:
        without = f" without {', '.join(lacking)}" if isinstance(model, nn.Module) else ""
        raise TypeError(
            f"model must be a torch module with forward(batch), updates(batch) and penalty(), got {check.kind(model)}{without}. "
            f"Make it a subclass of phased.learn.Model."
        )


class Share(NamedTuple):
    """A process's share of a batch, how many labels it has, and how many the whole batch has."""

    batch: Batch
    labels: int
    whole: int


class Opaque:
    """A batch that Fabric cannot look into: under mixed precision it would round times to half precision."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class Unopened(nn.Module):
    """Takes the batch out again and calls the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, opaque: Opaque) -> Tensor:
        """The model's answer."""
        answer: Tensor = self.model(opaque.batch)
        return answer


def shared(batch: Batch, fabric: Fabric) -> Share:
    """This process's share of a batch, on its device. Labels are counted before it goes there."""
    share = batch if fabric.world_size == 1 else batch.share(fabric.global_rank, fabric.world_size)
    return Share(share.to(fabric.device), share.labels, batch.labels)


def train_once(module: Any, optimizer: Any, shares: Iterator[Share], training: Training, fabric: Fabric) -> float:
    """One pass over these batches; the mean loss over all labels of all processes."""
    module.train()
    total, count = torch.zeros((), dtype=torch.float64, device=fabric.device), 0
    for batch, labels, whole in shares:
        loss = sum_of_losses(module(Opaque(batch)), batch)
        total += loss.detach()
        count += labels
        # Fabric's processes average their gradients: times their number, it is the gradient of the whole batch's mean.
        loss = loss * (fabric.world_size / max(1, whole))
        penalty = module.model.penalty() if training.openness_cost else None
        if penalty is not None:
            loss = loss + training.openness_cost * penalty
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(module, optimizer, max_norm=training.clip, error_if_nonfinite=False)
        optimizer.step()
    return mean(total, count, fabric)


@torch.no_grad()
def evaluate(module: Any, shares: Iterator[Share], fabric: Fabric) -> tuple[float, float | None]:
    """Accuracy or mean squared error without a leak, and the part of the units' steps that are updates."""
    module.eval()
    score, made, possible = torch.zeros(3, dtype=torch.float64, device=fabric.device)
    count, gated = 0, False
    for batch, labels, _ in shares:
        score += sum_of_scores(module(Opaque(batch)), batch)
        count += labels
        updates = module.model.updates(batch)
        if updates is not None:
            gated = True
            made += updates.made
            possible += updates.possible
    test = mean(score, count, fabric)
    if not gated:
        return test, None
    above, below = summed(made, possible, fabric)
    return test, above / below if below else math.nan


def labelled(answer: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The answers that have a label, and the labels: (N, classes) and (N,), or to predict numbers (N,) and (N,)."""
    classes = not batch.y.is_floating_point()
    if answer.shape[: batch.y.dim()] != batch.y.shape or answer.dim() != batch.y.dim() + classes:
        shape = ", ".join([*map(str, batch.y.shape), *(["classes"] if classes else [])])
        what = "classes" if classes else "numbers"
        raise ValueError(f"the model's answer must have shape ({shape}), as y are {what}, got {tuple(answer.shape)}.")
    return (answer, batch.y) if batch.mask is None else (answer[batch.mask], batch.y[batch.mask])


def sum_of_losses(answer: Tensor, batch: Batch) -> Tensor:
    """Over all labels: cross entropy of classes, squared error of numbers."""
    answer, y = labelled(answer, batch)
    if answer.dim() == 2:
        return functional.cross_entropy(answer, y, reduction="sum")
    return functional.mse_loss(answer, y, reduction="sum")


def sum_of_scores(answer: Tensor, batch: Batch) -> Tensor:
    """Over all labels: 1 for each class that is right, squared error of numbers."""
    answer, y = labelled(answer, batch)
    return (answer.argmax(-1) == y).sum() if answer.dim() == 2 else functional.mse_loss(answer, y, reduction="sum")


def mean(total: Tensor, labels: int, fabric: Fabric) -> float:
    """The mean over all labels of all processes."""
    above, below = summed(total, labels, fabric)
    if not below:
        raise ValueError(
            "at least one label must count in an epoch, got none: the masks of all its batches are False everywhere."
        )
    return above / below


def summed(above: Tensor, below: Tensor | int, fabric: Fabric) -> tuple[float, float]:
    """Both numbers, summed over all processes."""
    parts = torch.stack([above, torch.as_tensor(below, dtype=above.dtype, device=above.device)])
    sums: Any = fabric.all_reduce(parts, reduce_op="sum")
    first, second = sums.tolist()
    return first, second


def epoch_seed(seed: int, epoch: int, rank: int) -> int:
    """Where torch's random numbers start in an epoch: a resumed run draws what an unbroken one would."""
    return int(np.random.SeedSequence([seed, epoch, rank]).generate_state(1)[0])


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Inside, denormal numbers are zero: gradients from the last step alone fade into them, and they cost 30 times the time."""
    before = bool((torch.full((1,), 1e-310, dtype=torch.float64) * 1 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
