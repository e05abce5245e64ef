"""Test material for training: tiny tasks and runs, and runs that fail or are killed. Child processes import it by name too."""

import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from phased import PhasedLSTM, updates
from phased.cost import openness_cost
from phased.learn.batch import Batch, Samples, Split, generator, padded
from phased.learn.device import make_fabric
from phased.learn.loop import Training
from phased.learn.metric import sum_of_losses, sum_of_scores
from phased.learn.model import Model, Readout, Updates
from phased.learn.store import Epoch, load_checkpoint
from phased_lab.paper.waves import Sines
from phased_lab.runs import run as run_module
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run

SMALL = Sines(points=(5, 12), duration=(5.0, 20.0))
SHORT = Training(epochs=2, train=24, test=16, batch=8)
STEPS = Training(epochs=2, train=240, test=80, batch=8, rate=2e-2)


def tiny_run(task: Any = SMALL, model: Any = "phased", epochs: int = 3, seed: int = 0, **network: Any) -> Run:
    """A run of a fraction of a second."""
    leak = f"leak{network.get('leak', 1e-3):g}" if model == "phased" else ""
    training = Training(epochs=epochs, train=40, test=16, batch=8, seed=seed)
    return Run("tiny", "asynchronous", "quick", task, NetworkConfig(model=model, units=6, **network), training, tag=leak)


@dataclass(frozen=True)
class Unlucky(Sines):
    """Its third epoch raises an error, or kills the process it is in."""

    deadly: bool = False

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        if epoch == 3 and self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if epoch == 3:
            raise RuntimeError("the third epoch is unlucky")
        return super().batch(seed, split, epoch, index, size)


def same_numbers(line: dict[str, Any]) -> dict[str, Any]:
    """The parts of a result that do not depend on the time of the run or on interruptions."""
    curve = [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in line["curve"]]
    return {**{key: line[key] for key in ("name", "settings", "updates")}, "gates": line.get("gates"), "curve": curve}


def numbers(curve: list[Epoch]) -> list[Any]:
    """The parts of a curve that do not depend on the time it took."""
    return [(point.epoch, point.loss, point.test, point.updates) for point in curve]


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def weights(run: Run, out: Path) -> dict[str, Any]:
    """The checkpoint's parameters and Adam's averages, as bytes."""
    state = load_checkpoint(run.folder(out) / "checkpoint.pt")
    assert state is not None
    averages = {
        f"{n}.{key}": value
        for n, values in state["optimizer"]["state"].items()
        for key, value in values.items()
        if torch.is_tensor(value)
    }
    return {name: value.numpy().tobytes() for name, value in {**state["model"], **averages}.items()}


def execute(run: Run, out: Path, device: str = "cpu") -> dict[str, Any]:
    """On one thread; the record as JSON has it."""
    torch.set_num_threads(1)
    record: dict[str, Any] = json.loads(run_module.execute(run, out, device).line())
    return record


def killed_while_writing(run: Run, out: Path, write: int) -> None:
    """Kills the process in the middle of its n-th write of a file, after half of it."""
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


def train_together(fabric: Any, runs: list[Run], out: Path) -> None:
    """One of several processes that train the same models together."""
    torch.set_num_threads(1)
    out.mkdir(exist_ok=True)
    (out / f"rank {fabric.global_rank} of {fabric.world_size}").touch()
    for run in runs:
        run_module.execute(run, out, fabric=fabric)
    torch.distributed.destroy_process_group()  # threads of gloo that outlive Python abort the process


def train_as_machine(number: int, port: int, device: str, runs: list[Run], out: Path) -> None:
    """One of two processes that train together as two machines would, both on the same device."""
    os.environ |= {"NODE_RANK": str(number), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    from lightning.fabric.strategies import DDPStrategy

    # NCCL refuses two processes on one GPU; gloo copies gradients through the CPU's memory.
    fabric = make_fabric(device, num_nodes=2, strategy=DDPStrategy(process_group_backend="gloo"))
    fabric.launch()
    train_together(fabric, runs, out)


@dataclass(frozen=True)
class Signs:
    """Is each sample positive? Some steps have a label; the others have `poison` as their label."""

    poison: int = 0
    share: float = 0.5  # of the steps
    features: int = 1
    classes: int = 2

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        random = generator(0x516, seed, split, epoch, index, size)
        lengths = random.integers(4, 9, size, endpoint=True)
        x = random.normal(size=(int(lengths.max()), size, 1))
        samples = padded(x, random.random(x.shape[:2]).cumsum(0), lengths, np.zeros(size)).samples
        counts = (np.arange(len(x))[:, None] < lengths) & (random.random(x.shape[:2]) < self.share)
        y = np.where(counts, x[..., 0] > 0, self.poison).astype(np.int64)
        return Batch.of(*samples, torch.from_numpy(y), torch.from_numpy(counts))


@dataclass(frozen=True)
class SignsAsNumbers(Signs):
    """The labels are the samples themselves; labels that do not count are nan."""

    classes: int | None = None  # type: ignore[assignment]

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        batch = super().batch(seed, split, epoch, index, size)
        y = torch.where(batch.mask, batch.samples.x[..., 0], float("nan"))
        return Batch.of(*batch.samples, y, batch.mask)


@dataclass(frozen=True)
class WrongShare:
    """The share of wrong classes, of which fewer are better."""

    def loss(self, answer: torch.Tensor, batch: Batch) -> torch.Tensor:
        return sum_of_losses(answer, batch)

    def score(self, answer: torch.Tensor, batch: Batch) -> torch.Tensor:
        return batch.labels - sum_of_scores(answer, batch, batch.labels).score


@dataclass(frozen=True)
class EveryStep:
    """A network with an output at every step; its gates are open."""

    model: str = "phased"
    units: int = 6

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def build(self, task: Any, seed: int) -> Readout:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            rnn = PhasedLSTM(task.features, self.units, period=3.0, ratio_on=0.9, learn_ratio_on=True)
            return Readout(rnn, task.classes, every_step=True)


@dataclass(frozen=True)
class TwoSensors:
    """Two sensors, each with its own times, measure a number with noise; is the sum of the two numbers positive?"""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        random = generator(0x2, seed, split, epoch, index, size)
        shown = random.normal(size=(2, size))
        streams = {"ears": self.stream(random, shown[0], 9, 0.1), "eyes": self.stream(random, shown[1], 4, 2.0)}
        return Batch(streams, torch.from_numpy((shown.sum(0) > 0).astype(np.int64)))

    def stream(self, random: np.random.Generator, shown: Any, most: int, interval: float) -> Samples:
        lengths = random.integers(2, most, len(shown), endpoint=True)
        x = shown + 0.1 * random.normal(size=(int(lengths.max()), len(shown)))
        return padded(x[..., None], interval * random.random(x.shape).cumsum(0), lengths, np.zeros(len(shown))).samples


class TwoClocks(Model):
    """A layer for each of two sensors; the output is computed from both last states."""

    def __init__(self, units: int = 6) -> None:
        super().__init__()
        self.ears = PhasedLSTM(1, units, period=0.5, ratio_on=0.8, learn_ratio_on=True)
        self.eyes = PhasedLSTM(1, units, period=5.0, ratio_on=0.8, learn_ratio_on=True)
        self.linear = nn.Linear(2 * units, 2)

    def layers(self) -> dict[str, PhasedLSTM]:
        return {"ears": self.ears, "eyes": self.eyes}

    def forward(self, batch: Batch) -> torch.Tensor:
        last = []
        for name, rnn in self.layers().items():
            x, time, lengths = batch.streams[name]
            _, (h, _) = rnn(x, time, lengths=lengths)
            last.append(h[-1])
        answer: torch.Tensor = self.linear(torch.cat(last, -1))
        return answer

    def updates(self, batch: Batch) -> Updates:
        of = [(rnn, batch.streams[name]) for name, rnn in self.layers().items()]
        made = [updates(rnn, samples.time, samples.lengths).sum() for rnn, samples in of]
        return Updates(sum(made), sum(samples.lengths.sum() * rnn.hidden_size for rnn, samples in of))

    def penalty(self) -> torch.Tensor:
        return openness_cost(self.ears) + openness_cost(self.eyes)
