"""Test material for training: tiny tasks and runs, and ways to die. Imported by name in child processes too."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from phased import checkpoint
from phased.data.loader import Place, ahead
from phased.data.sequences import Batch, Split
from phased.data.sines import Sines
from phased.experiments import run as run_module
from phased.experiments.run import Run
from phased.models.network import Network
from phased.train import Settings

SMALL = Sines(points=(5, 12), duration=(5.0, 20.0))


def tiny_run(task: Any = SMALL, model: Any = "phased", epochs: int = 3, seed: int = 0, **network: Any) -> Run:
    """A run of a fraction of a second."""
    training = Settings(epochs=epochs, train=40, test=16, batch=8, seed=seed)
    return Run("tiny", "asynchronous", "quick", task, Network(model=model, units=6, **network), training)


def first_batch(seed: int, at: list[Place]) -> torch.Tensor:
    """The input of a first batch, made ahead by a worker."""
    return next(ahead(Sines(), seed, at, workers=1)).x


@dataclass(frozen=True)
class Failing(Sines):
    """Raises an error in its third epoch."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        if epoch == 3:
            raise RuntimeError("the third epoch is unlucky")
        return super().batch(seed, split, epoch, index, size)


@dataclass(frozen=True)
class Deadly(Sines):
    """Kills the process it is in, in its third epoch."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        if epoch == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(seed, split, epoch, index, size)


@dataclass(frozen=True)
class Exploding(Sines):
    """Its second epoch has no numbers in it."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        batch = super().batch(seed, split, epoch, index, size)
        return batch._replace(x=batch.x * float("nan")) if epoch == 2 else batch


def same_numbers(line: dict[str, Any]) -> dict[str, Any]:
    """Of a result, what must not depend on when, or in how many pieces, it was run."""
    curve = [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in line["curve"]]
    return {**{key: line[key] for key in ("name", "settings", "updates")}, "gates": line.get("gates"), "curve": curve}


def weights(run: Run, out: Path) -> dict[str, Any]:
    """The checkpoint's parameters and Adam's averages, as bytes."""
    state = checkpoint.load(run.folder(out) / "checkpoint.pt")
    assert state is not None
    averages = {
        f"{n}.{key}": value
        for n, values in state["optimizer"]["state"].items()
        for key, value in values.items()
        if torch.is_tensor(value)
    }
    return {name: value.numpy().tobytes() for name, value in {**state["model"], **averages}.items()}


def execute(run: Run, out: Path) -> dict[str, Any]:
    """On the CPU, on one thread."""
    torch.set_num_threads(1)
    return run_module.execute(run, out, "cpu")


def killed_while_writing(run: Run, out: Path, write: int) -> None:
    """Dies in the middle of its n-th write of a file, half of which is on the disk by then."""
    synced, count = os.fsync, 0

    def sync(handle: int) -> None:
        nonlocal count
        count += 1
        if count == write:
            size = os.fstat(handle).st_size
            if os.path.isfile(f"/proc/self/fd/{handle}"):  # noqa: PTH113 (a link to an open file)
                os.ftruncate(handle, size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        synced(handle)

    os.fsync = sync
    execute(run, out)


def slowly(run: Run, out: Path) -> None:
    """As `execute`, but an epoch takes long enough to be killed in."""
    torch.set_num_threads(1)
    run_module.execute(run, out, "cpu", progress=lambda epoch: time.sleep(0.03))


def train_together(fabric: Any, runs: list[Run], out: Path) -> None:
    """One of several processes that train the same models together."""
    torch.set_num_threads(1)
    out.mkdir(exist_ok=True)
    (out / f"rank {fabric.global_rank} of {fabric.world_size}").touch()
    for run in runs:
        run_module.execute(run, out, fabric=fabric)


@dataclass(frozen=True)
class Slow(Sines):
    """Its batches take time: an epoch of a tiny run a tenth of a second."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        time.sleep(0.014)
        return super().batch(seed, split, epoch, index, size)
