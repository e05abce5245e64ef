"""The one training loop, on Lightning Fabric: CPU, one GPU, or several processes and machines by Fabric's strategies."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from phased import check, checkpoint, files
from phased.cost import openness_cost, updates
from phased.data import loader
from phased.data.sequences import Batch, Task
from phased.layer import PhasedRNN
from phased.models.classifier import Readout

if TYPE_CHECKING:
    from lightning.fabric import Fabric

CHECKPOINT, LOG = "checkpoint.pt", "epochs.ndjson"


@dataclass(frozen=True)
class Settings:
    """How to train. An epoch is `train` sequences nobody has seen before, and a test on `test` more."""

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


class Epoch(NamedTuple):
    """One point of a learning curve."""

    epoch: int
    loss: float  # mean over the training sequences, penalties not included
    test: float  # accuracy, or the mean squared error of a regression
    seconds: float  # training and test
    updates: float | None  # open updates per unit and step on the test set; None where there are no gates


@dataclass(frozen=True)
class Outcome:
    """The learning curve, and how many of its epochs an earlier run had left in a checkpoint."""

    curve: list[Epoch]
    resumed: int

    @property
    def wall(self) -> float:
        """Seconds spent on all epochs, those before an interruption included."""
        return math.fsum(epoch.seconds for epoch in self.curve)


Progress = Callable[[Epoch], None]


def make_fabric(device: str = "auto", devices: Any = 1, **options: Any) -> Fabric:
    """Fabric for "auto" (CUDA if there is any, else the CPU), "cpu", "cuda" or "cuda:1"; the options are Fabric's own."""
    from lightning.fabric import Fabric
    from lightning_utilities.core import rank_zero

    kind, index = check_device(device)
    # On each start it advises to round float32 products to tensor cores' precision, which would change the numbers.
    rank_zero.log.setLevel(logging.WARNING)
    return Fabric(accelerator=kind, devices=[int(index)] if index else devices, **options)


def check_device(device: str) -> tuple[str, str]:
    """Which kind it is, "cpu" or "cuda", and its number if there is one; a ValueError if there is no such device here."""
    kind, colon, index = device.partition(":")
    check.choice("device", kind, ("auto", "cpu", "cuda"))
    if colon and kind != "cuda":
        raise ValueError(f"device must have no number except for 'cuda', got {device!r}. Use {kind!r}.")
    if colon and not (index.isascii() and index.isdigit()):
        raise ValueError(f"device must be 'cuda' or 'cuda:' and a number, got {device!r}. Use 'cuda:0' for the first GPU.")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be 'cpu' here, got 'cuda', which PyTorch does not find. Use 'auto' to take what there is.")
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f"device must be at most 'cuda:{torch.cuda.device_count() - 1}' here, got {device!r}.")
    return kind, index


def fit(
    task: Task,
    model: Readout,
    settings: Settings,
    folder: Path,
    fabric: Fabric,
    progress: Progress | None = None,
    workers: int = 0,
) -> Outcome:
    """Train a model in place, or go on where a checkpoint in the folder left off.

    Every epoch ends with a checkpoint and a line in the log; a run that was killed and resumed gives an unbroken one's numbers.
    Batches are pure functions of the seed, and each epoch seeds torch anew, so weights, Adam's averages and the curve are all
    there is to keep.
    """
    smallest = min(*loader.sizes(settings.train, settings.batch), *loader.sizes(settings.test, settings.batch))
    if smallest < fabric.world_size:
        raise ValueError(
            f"every batch must have a sequence for each of the {fabric.world_size} processes, but one has {smallest}. "
            f"Choose train and test as multiples of batch."
        )
    identity = {"task": repr(task), "model": repr(model), **asdict(settings)}
    del identity["epochs"]  # more epochs are more of the same training
    optimizer: Any = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=settings.rate)
    module, optimizer = fabric.setup(Unopened(model), optimizer)
    store = Store(folder, identity, fabric)
    curve = store.resume(model, optimizer, settings.epochs)
    resumed = len(curve)
    if not curve:  # a disk that is full is found out before the work
        store.make_room(model)
        store.keep(model, optimizer, curve)
    epochs = range(resumed + 1, settings.epochs + 1)
    places = loader.places(epochs, settings.train, settings.test, settings.batch)
    batches = (shared(batch, fabric) for batch in loader.ahead(task, settings.seed, places, workers))
    steps, tests = (len(loader.sizes(count, settings.batch)) for count in (settings.train, settings.test))
    with flushed_denormals():
        for epoch in epochs:
            begin = time.perf_counter()
            torch.manual_seed(epoch_seed(settings.seed, epoch, fabric.global_rank))
            loss = train_once(module, optimizer, islice(batches, steps), settings, fabric)
            if not math.isfinite(loss):
                raise FloatingPointError(f"the loss of epoch {epoch} is {loss}. Try a smaller rate than {settings.rate:g}.")
            test, opened = evaluate(module, islice(batches, tests), fabric)
            curve.append(Epoch(epoch, loss, test, time.perf_counter() - begin, opened))
            store.keep(model, optimizer, curve)
            if progress is not None and fabric.is_global_zero:
                progress(curve[-1])
    return Outcome(curve, resumed)


class Share(NamedTuple):
    """A process's share of a batch, and how many sequences the whole batch has."""

    batch: Batch
    whole: int


class Opaque:
    """A batch that Fabric cannot look into: under mixed precision it would round times to half precision."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class Unopened(nn.Module):
    """Takes the batch out again and calls the model."""

    def __init__(self, model: Readout) -> None:
        super().__init__()
        self.model = model

    def forward(self, opaque: Opaque) -> Tensor:
        """The model's answer."""
        answer: Tensor = self.model(opaque.batch)
        return answer


def shared(batch: Batch, fabric: Fabric) -> Share:
    """This process's share of a batch, on its device."""
    share = batch if fabric.world_size == 1 else batch.share(fabric.global_rank, fabric.world_size)
    return Share(share.to(fabric.device), batch.size)


def train_once(module: Any, optimizer: Any, shares: Iterator[Share], settings: Settings, fabric: Fabric) -> float:
    """One pass over these batches; the mean loss over all sequences of all processes."""
    module.train()
    rnn = module.model.rnn
    total, count = torch.zeros((), dtype=torch.float64, device=fabric.device), 0
    for batch, whole in shares:
        sum_of_losses = losses(module(Opaque(batch)), batch.y)
        # Fabric's processes average their gradients: times their number, it is the gradient of the whole batch's mean.
        loss = sum_of_losses * (fabric.world_size / whole)
        if settings.openness_cost and isinstance(rnn, PhasedRNN):
            loss = loss + settings.openness_cost * openness_cost(rnn)
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(module, optimizer, max_norm=settings.clip, error_if_nonfinite=False)
        optimizer.step()
        total += sum_of_losses.detach()
        count += batch.size
    return ratio(total, count, fabric)


@torch.no_grad()
def evaluate(module: Any, shares: Iterator[Share], fabric: Fabric) -> tuple[float, float | None]:
    """Accuracy or mean squared error without a leak, and the part of the units' steps that are updates."""
    module.eval()
    rnn = module.model.rnn
    score, opened, steps = torch.zeros(3, dtype=torch.float64, device=fabric.device)
    count = 0
    for batch, _ in shares:
        answer = module(Opaque(batch))
        score += (answer.argmax(-1) == batch.y).sum() if answer.dim() == 2 else losses(answer, batch.y)
        count += batch.size
        if isinstance(rnn, PhasedRNN):
            opened += updates(rnn, batch.time, batch.lengths).sum()
            steps += batch.lengths.sum()
    test = ratio(score, count, fabric)
    if not isinstance(rnn, PhasedRNN):
        return test, None
    return test, ratio(opened, steps * rnn.num_layers * rnn.hidden_size, fabric)


def losses(answer: Tensor, y: Tensor) -> Tensor:
    """The sum over sequences: cross entropy of classes, squared error of numbers."""
    if answer.dim() == 2:
        return functional.cross_entropy(answer, y, reduction="sum")
    return functional.mse_loss(answer, y, reduction="sum")


def ratio(above: Tensor, below: Tensor | int, fabric: Fabric) -> float:
    """One sum over another, both over all processes."""
    parts = torch.stack([above, torch.as_tensor(below, dtype=above.dtype, device=above.device)])
    sums: Any = fabric.all_reduce(parts, reduce_op="sum")
    return float(sums[0] / sums[1])


def epoch_seed(seed: int, epoch: int, rank: int) -> int:
    """Where torch's random numbers start in an epoch: a resumed run draws what an unbroken one would."""
    return int(np.random.SeedSequence([seed, epoch, rank]).generate_state(1)[0])


class Store:
    """The checkpoint and the log of a training in a folder; the first process writes, all get what it reads."""

    def __init__(self, folder: Path, identity: dict[str, Any], fabric: Fabric) -> None:
        self.folder, self.identity, self.fabric = folder, identity, fabric

    def resume(self, model: nn.Module, optimizer: Any, epochs: int) -> list[Epoch]:
        """Put model and optimiser where the checkpoint has them; its curve, empty if there is none."""
        state = None
        if self.fabric.is_global_zero:
            files.writable(self.folder)
            files.remove_parts(self.folder)
            state = checkpoint.load(self.folder / CHECKPOINT)
        state = self.fabric.broadcast(state)
        if state is None:
            return []
        self._compare(state)
        curve = [Epoch(*point) for point in state["curve"]]
        if len(curve) > epochs:
            raise ValueError(f"'{self.folder / CHECKPOINT}' has {len(curve)} epochs, more than the {epochs} asked for. {CURE}")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        self._write_log(curve)  # a kill after the checkpoint and before the log leaves it an epoch short
        return curve

    def _compare(self, state: dict[str, Any]) -> None:
        path = self.folder / CHECKPOINT
        if missing := {"model", "optimizer", "curve", "identity"} - state.keys():
            without = ", ".join(sorted(map(repr, missing)))
            raise ValueError(f"'{path}' must be the checkpoint of a training, got one without {without}. {CURE}")
        there = state["identity"]
        for name, here in self.identity.items():
            if there.get(name) != here:
                raise ValueError(f"'{path}' is of another training: {name} is {there.get(name)!r} there, {here!r} here. {CURE}")

    def make_room(self, model: nn.Module) -> None:
        """Find out whether there is room for two checkpoints, the old one and the new: weights and Adam's two averages each."""
        if self.fabric.is_global_zero:
            size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
            files.writable(self.folder, room=2 * 3 * size)

    def keep(self, model: nn.Module, optimizer: Any, curve: Sequence[Epoch]) -> None:
        """Write checkpoint and log; when this returns, a kill loses nothing."""
        if self.fabric.is_global_zero:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            points = [tuple(epoch) for epoch in curve]
            checkpoint.save(self.folder / CHECKPOINT, {**state, "curve": points, "identity": self.identity})
            self._write_log(curve)
        self.fabric.barrier()

    def _write_log(self, curve: Sequence[Epoch]) -> None:
        if self.fabric.is_global_zero:
            lines = "".join(json.dumps(epoch._asdict()) + "\n" for epoch in curve)
            files.write_whole(self.folder / LOG, lines.encode())


CURE = "Choose another folder, or delete it to start anew."


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Inside, denormal numbers are zero: gradients from the last step alone fade into them, and they cost 30 times the time."""
    before = bool((torch.full((1,), 1e-310, dtype=torch.float64) * 1 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
