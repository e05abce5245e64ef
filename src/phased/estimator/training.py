"""Training of a network by the one training loop: early stopping, progress, interrupts, and the budget of updates."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import files
from phased.estimator.batches import EventTask, Indices, Sequences, in_batches
from phased.estimator.gates import FREE
from phased.estimator.network import Network
from phased.estimator.targets import Objective
from phased.groups import parameter_groups
from phased.layer import PhasedRNN
from phased.learn.average import Best, Last
from phased.learn.device import is_first, together
from phased.learn.loop import OpenFirst, Training, fit, flushed_denormals
from phased.learn.store import CHECKPOINT, LOG, Epoch, check_log, load_checkpoint

LEAST_TRAINED_RATIO = 0.01
"""The open ratio that training leaves to a unit at least, so that it can still learn; less where the budget is less."""
ALL, OPEN = "all", "open"
"""Folders within the checkpoint: training on all sequences, and training with open gates after the training with sparse gates."""


@dataclass(frozen=True)
class Course:
    """The course of a training: all epochs, the best one, and whether it was interrupted."""

    curve: list[Epoch]
    best: int
    interrupted: bool

    @property
    def best_test(self) -> float:
        """Loss on the held-out sequences after the best epoch."""
        return self.curve[self.best - 1].test


def train(
    network: Network,
    task: EventTask,
    objective: Objective,
    optimiser: Optimiser,
    settings: Training,
    best: Best | Last,
    device: str,
    checkpoint: Path | None,
    verbose: bool,
) -> Course:
    """Train a network in place. It ends with the weights of the best epoch, also after an interrupt.

    `Last` selects no best epoch, so an interrupted network is unusable.
    """
    curve, interrupted, what = [], False, "training" if isinstance(best, Best) else "training on all sequences"
    fabric = together(device)
    drawn_on = [] if fabric.device.type == "cpu" else [fabric.device]
    pricing = OpenFirst(FREE) if settings.openness_cost else None
    with place(checkpoint) as folder, progress(settings.epochs, verbose, what) as show, torch.random.fork_rng(drawn_on):

        def after(epoch: Epoch) -> None:
            curve.append(epoch)
            show(epoch)

        try:
            how: dict[str, Any] = {"objective": objective, "optimizer": optimiser, "best": best, "pricing": pricing}
            curve = fit(task, network, settings, folder, fabric, after, **how).curve
        except KeyboardInterrupt:
            if fabric.world_size > 1:  # the others may wait for this process
                raise
            if isinstance(best, Best):  # the last checkpoint contains all finished epochs, also from before a resume
                kept = load_checkpoint(folder / CHECKPOINT)
                if kept is None or not kept["curve"]:
                    raise
                curve = [Epoch(*point) for point in kept["curve"]]
                best.load_state_dict(kept["best"])
                best.restore(network)
            interrupted = True
    network.to("cpu").eval()
    return Course(curve, best.epoch, interrupted)


@dataclass(frozen=True)
class Optimiser:
    """Makes the optimiser of a network.

    Args:
        rate: learning rate.
        decay: decoupled weight decay of matrices.
        budget: the highest mean open ratio, or None.
    """

    rate: float
    decay: float
    budget: float | None = None

    def __call__(self, model: Any) -> torch.optim.Optimizer:
        """AdamW, which after every step returns the open ratios to their range and to the budget."""
        optimiser = torch.optim.AdamW(parameter_groups(model, self.decay), lr=self.rate, fused=True)
        if isinstance(model.rnn, PhasedRNN):
            ratio_on = model.rnn.get_parameter("ratio_on_l0")
            optimiser.register_step_post_hook(lambda *_: hold(ratio_on, self.budget))
        return optimiser


@torch.no_grad()
def hold(ratio_on: Tensor, budget: float | None) -> None:
    """Bound open ratios, and scale them so that their mean is at most the budget, if any; no value is read from a GPU."""
    ratio_on.clamp_(LEAST_TRAINED_RATIO if budget is None else min(LEAST_TRAINED_RATIO, budget), 1.0)
    if budget is not None:
        ratio_on.mul_((budget / ratio_on.mean()).clamp(max=1.0))


@torch.no_grad()
def answers(network: Network, data: Sequences, chosen: Indices) -> NDArray[np.float64]:
    """The network's outputs for these sequences in their order, (n, ...); at every step, (steps, ...) one after another."""
    network.eval()
    found, device = {}, network.head.weight.device
    with flushed_denormals():
        for some in in_batches(data, chosen):
            made = network(data.batch(some).to(device)).double().cpu().numpy()
            for column, which in enumerate(some.tolist()):
                found[which] = made[: data.lengths[which], column] if network.every_step else made[column]
    if not found:
        return np.zeros(0 if network.outputs == 1 else (0, network.outputs))
    rows = [found[which] for which in chosen.tolist()]
    return np.concatenate(rows) if network.every_step else np.stack(rows)


@contextmanager
def place(checkpoint: Path | None) -> Iterator[Path]:
    """The folder of the checkpoint: the user's, or a temporary one."""
    if checkpoint is not None:
        if is_first():
            check_checkpoint(checkpoint)
        yield checkpoint
    else:
        with tempfile.TemporaryDirectory(prefix="phased-") as folder:
            yield Path(folder)


def check_checkpoint(folder: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise an error if a checkpoint cannot be written to a folder, or would replace something else or a part of an input."""
    for place in (folder, folder / OPEN, folder / ALL):
        files.writable(place, create=False)
        for name in (CHECKPOINT, LOG):
            files.check_output(place / name, inputs)
            if (place / name).exists() and not (place / name).is_file():
                raise ValueError(f"'{place / name}' must be a regular file, which is read and written. Name another folder.")
        load_checkpoint(place / CHECKPOINT)
        check_log(place)


@contextmanager
def progress(epochs: int, verbose: bool, what: str) -> Iterator[Callable[[Epoch], None]]:
    """Shows every epoch: a bar where rich is installed, else lines; nothing unless verbose, and in the first process."""
    if not verbose or not is_first():
        yield lambda epoch: None
    elif find_spec("rich") is None:
        yield lambda epoch: print(f"{what}, {described(epoch)}", flush=True)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        class Patient(Console):
            def on_broken_pipe(self) -> None:  # a reader that has enough does not end the training
                self.quiet = True

        with Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=Patient(stderr=True),
        ) as bar:
            shown = bar.add_task("", total=epochs)
            yield lambda epoch: bar.update(shown, completed=epoch.epoch, description=described(epoch))


def described(epoch: Epoch) -> str:
    """One line for an epoch."""
    return f"epoch {epoch.epoch}: loss {epoch.loss:.4f}, held out {epoch.test:.4f}, {epoch.seconds:.1f} s"
