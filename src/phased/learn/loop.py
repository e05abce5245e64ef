"""The training loop."""

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
    """The settings of a training with Adam. Every epoch trains and tests on new sequences.

    Args:
        epochs: number of epochs.
        train: training sequences per epoch.
        test: test sequences per epoch.
        batch: sequences per batch.
        rate: learning rate. The default is Adam's, and the authors'.
        clip: largest norm of the gradients. The period's gradient grows with time, so a bound is needed.
        openness_cost: factor of `Model.penalty`, which is added to the loss (`phased.openness_cost`).
        seed: seed of the batches and of torch's random numbers.

    Raises:
        ValueError: a number is out of its range.
    """

    epochs: int = 70
    train: int = 5000
    test: int = 500
    batch: int = 32
    rate: float = 1e-3
    clip: float = 1.0
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
    """The learning curve, and how many of its epochs come from the checkpoint of an earlier, interrupted call."""

    curve: list[Epoch]
    resumed: int

    @property
    def wall(self) -> float:
        """Seconds spent on all epochs, including those before an interruption."""
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
    """Train a model in place, or resume from the checkpoint in the folder.

    Every epoch ends with a checkpoint and a line in the log. A training that was killed and resumed gives the same numbers as
    one that was not: batches are pure functions of the seed, and torch is seeded again for each epoch, so a checkpoint holds
    only the weights, the optimiser's state and the learning curve.

    Args:
        task: makes the batches.
        model: the network to train; see `phased.learn.Model`.
        training: the settings.
        folder: for the checkpoint and the log; created if it does not exist.
        fabric: the device or devices to train on (`phased.learn.make_fabric`).
        progress: called after every epoch, in the first process.
        workers: processes that prefetch batches; 0 makes each batch when it is needed.

    Returns:
        The learning curve, including the epochs of an earlier, interrupted call.

    Raises:
        TypeError: the model lacks one of the methods of `phased.learn.Model`.
        ValueError: the checkpoint in the folder is damaged, of another training or of more epochs; a batch has fewer sequences
            than there are processes; no label of an epoch counts; or the model's output does not have the shape of the labels.
        OSError: the folder cannot be written to.
        FloatingPointError: the loss is not finite.
    """
    check_model(model)
    folder = Path(folder)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learned:
        raise ValueError("model must have a parameter that requires a gradient, got none. Call model.requires_grad_().")
    smallest = min(*loader.sizes(training.train, training.batch), *loader.sizes(training.test, training.batch))
    if smallest < fabric.world_size:
        raise ValueError(
            f"every batch must have a sequence for each of the {fabric.world_size} processes, but one has {smallest}. "
            f"Choose train and test as multiples of batch."
        )
    identity = {"task": repr(task), "model": repr(model), **asdict(training)}
    for name in ("task", "model"):
        if " at 0x" in identity[name]:  # an address, which is another one in the next process
            raise ValueError(
                f"{name} must have a repr that is the same in every process, so that a checkpoint is recognised, got "
                f"{identity[name]}. Make it a frozen dataclass, or give it a __repr__."
            )
    del identity["epochs"]  # a training may be continued with more epochs
    optimizer: Any = torch.optim.Adam(learned, lr=training.rate)
    module, optimizer = fabric.setup(Unopened(model), optimizer)
    store = Store(folder, identity, fabric)
    curve = store.resume(model, optimizer, training.epochs)
    resumed = len(curve)
    if not curve:  # a full disk is noticed before the first epoch
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
    """Raise a TypeError if the model cannot be trained."""
    lacking = [name for name in ("forward", "updates", "penalty") if not callable(getattr(model, name, None))]
    if not isinstance(model, nn.Module) or lacking:
        without = f" without {', '.join(lacking)}" if isinstance(model, nn.Module) else ""
        raise TypeError(
            f"model must be a torch module with forward(batch), updates(batch) and penalty(), got {check.kind(model)}{without}. "
            f"Make it a subclass of phased.learn.Model."
        )


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


def train_once(module: Any, optimizer: Any, shares: Iterator[Share], training: Training, fabric: Fabric) -> float:
    """Train on these batches; returns the mean loss over all labels of all processes."""
    module.train()
    total, count = torch.zeros((), dtype=torch.float64, device=fabric.device), 0
    for batch, labels, whole in shares:
        loss = sum_of_losses(module(Opaque(batch)), batch)
        total += loss.detach()
        count += labels
        # Fabric averages the gradients of all processes. Times their number, this is the gradient of the whole batch's mean loss.
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
    """Accuracy or mean squared error in eval, and the share of open units among all units x steps; None without time gates."""
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
    return test, above / below if below else 0.0


def labelled(answer: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Outputs whose label counts, and these labels: (N, classes) and (N,), or (N,) and (N,) for a regression."""
    classes = not batch.y.is_floating_point()
    if answer.shape[: batch.y.dim()] != batch.y.shape or answer.dim() != batch.y.dim() + classes:
        shape = ", ".join([*map(str, batch.y.shape), *(["classes"] if classes else [])])
        what = "classes" if classes else "numbers"
        each = "one label per sequence" if batch.mask is None else "one label per step"
        raise ValueError(
            f"the model's output must have shape ({shape}), because y holds {what}, {each}, got {tuple(answer.shape)}."
        )
    return (answer, batch.y) if batch.mask is None else (answer[batch.mask], batch.y[batch.mask])


def sum_of_losses(answer: Tensor, batch: Batch) -> Tensor:
    """Sum over all labels of the cross entropy of classes or the squared error of numbers."""
    answer, y = labelled(answer, batch)
    if answer.dim() == 2:
        return functional.cross_entropy(answer, y, reduction="sum")
    return functional.mse_loss(answer, y, reduction="sum")


def sum_of_scores(answer: Tensor, batch: Batch) -> Tensor:
    """Number of correct classes, or sum of the squared errors of numbers."""
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
    """Seed of torch's random numbers in an epoch: a resumed run draws the same numbers as an uninterrupted one."""
    return int(np.random.SeedSequence([seed, epoch, rank]).generate_state(1)[0])


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero: gradients decay to them over many steps, and they are 30 times slower to compute with."""
    before = bool((torch.full((1,), 1e-310, dtype=torch.float64) * 1 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
