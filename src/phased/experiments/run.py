"""Run: one training of one network on one task, and the one line of JSON that it leaves."""

from __future__ import annotations

import json
import math
import platform
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

import phased
from phased import check, checkpoint, files
from phased.data.sequences import Task
from phased.layer import PhasedRNN
from phased.machine import device_name, processor
from phased.models.classifier import Readout
from phased.models.network import Network
from phased.parameters import GATE
from phased.train import CHECKPOINT, Outcome, Progress, Settings, fit, make_fabric

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Scale = Literal["paper", "quick"]
SCALES: tuple[str, ...] = get_args(Scale)


@dataclass(frozen=True)
class Run:
    """Everything that decides a run's numbers. `variant` tells it, in its name, from others of the same model and condition."""

    experiment: str
    condition: str
    scale: Scale
    task: Task
    network: Network
    training: Settings
    variant: str = ""
    by: str = ""  # what `phased run` is asked for to make it, where that is not the experiment's name

    @property
    def name(self) -> str:
        """Readable, the same in every session, and fit for a file: frequency-asynchronous-phased-leak0.001-seed0."""
        condition = re.sub(r"exp\((.*),(.*)\)", r"exp\1to\2", self.condition)
        leak = f"leak{self.network.leak:g}" if self.network.model == "phased" else ""
        scale = "" if self.scale == "paper" else self.scale
        parts = self.experiment, condition, self.network.model, leak, self.variant, f"seed{self.training.seed}", scale
        return "-".join(part for part in parts if part)

    @property
    def settings(self) -> dict[str, Any]:
        """All numbers of the run, as they are written to its result."""
        task = {"name": type(self.task).__name__, **vars(self.task)}
        settings: dict[str, Any] = json.loads(json.dumps({**self.network.numbers(), **asdict(self.training), "task": task}))
        return settings

    @property
    def command(self) -> str:
        """The command that makes this run and no other."""
        asked = f"{self.by or self.experiment} --scale {self.scale}"
        return f"phased run {asked} --seeds {self.training.seed + 1} --only {self.name}"

    def result(self, out: Path) -> Path:
        """The file with the run's line."""
        return out / self.experiment / f"{self.name}.jsonl"

    def folder(self, out: Path) -> Path:
        """Where its checkpoint and its log lie, beside the result."""
        return out / self.experiment / self.name

    def build(self) -> Readout:
        """The network before training."""
        return self.network.build(self.task, self.training.seed)


def execute(
    run: Run,
    out: Path,
    device: str = "auto",
    progress: Progress | None = None,
    workers: int | None = None,
    fabric: Fabric | None = None,
) -> dict[str, Any]:
    """Train, or go on training, and write the result; the line that was written.

    `fabric`, launched by the caller, takes the place of `device`. Unless told otherwise, batches are made ahead for a GPU only: a
    CPU has its cores busy.
    """
    fabric = fabric or make_fabric(device)
    model = run.build()
    before = gates(model)
    workers = int(fabric.device.type == "cuda") if workers is None else workers
    outcome = fit(run.task, model, run.training, run.folder(out), fabric, progress, workers)
    line = describe(run, outcome, before, gates(model), fabric.device)
    if fabric.is_global_zero:
        write_line(run.result(out), line)
    fabric.barrier()
    return line


def gates(model: Readout) -> dict[str, list[float]] | None:
    """Period, shift and open ratio of every unit as they are in force; None for a model without gates."""
    if not isinstance(model.rnn, PhasedRNN):
        return None
    return {name: [v for gate in model.rnn.gates() for v in getattr(gate, name).detach().tolist()] for name in GATE}


def describe(
    run: Run, outcome: Outcome, before: dict[str, list[float]] | None, after: dict[str, list[float]] | None, device: torch.device
) -> dict[str, Any]:
    """The result as it is written."""
    line: dict[str, Any] = {
        "experiment": run.experiment,
        "name": run.name,
        "model": run.network.model,
        "condition": run.condition,
        "scale": run.scale,
        "seed": run.training.seed,
        "settings": run.settings,
        "curve": [epoch._asdict() for epoch in outcome.curve],
        "wall": outcome.wall,
        "updates": outcome.curve[-1].updates,
        "versions": {"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": processor(), "device": device_name(device), "threads": torch.get_num_threads()},
        "date": time.strftime("%Y-%m-%d"),
        "command": run.command,
    }
    if before is not None and after is not None:
        line["gates"] = {name: {"before": before[name], "after": after[name]} for name in GATE}
    return line


def write_line(path: Path, line: dict[str, Any]) -> None:
    """One line of JSON, or no file; what JSON has no number for is null."""
    files.write_whole(path, (json.dumps(finite(line), allow_nan=False) + "\n").encode())


def finite(value: Any) -> Any:
    """The same with None for every number that is not finite."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_line(path: Path) -> dict[str, Any] | None:
    """What `write_line` wrote for a run; None if there is no such file, NoResult if something else lies there."""
    try:
        line = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        line = None
    if isinstance(line, dict) and isinstance(line.get("settings"), dict) and line.get("curve"):
        return line
    raise NoResult(f"'{path}' should hold the result of a run, but does not. {CURE}")


class NoResult(ValueError):
    """A file lies where a result should, and is none."""


def finished(run: Run, out: Path) -> bool:
    """Whether the run has its result; a ValueError if the file there is of other settings, NoResult if it is none at all."""
    path = run.result(out)
    line = read_line(path)
    if line is None:
        return False
    there = line["settings"]
    here = run.settings
    for name in sorted(here.keys() | there.keys()):
        if there.get(name) != here.get(name):
            differs = f"{name} is {there.get(name)!r} there, {here.get(name)!r} here"
            raise ValueError(f"'{path}' is the result of other settings: {differs}. {CURE}")
    return True


CURE = "Choose another folder, or move it away to run it again."


def trained(run: Run, out: Path) -> Readout:
    """The network of a run as its last checkpoint has it, in eval."""
    state = checkpoint.load(run.folder(out) / CHECKPOINT)
    if state is None or "model" not in state:
        raise FileNotFoundError(f"there is no checkpoint of '{run.name}' in '{out}'. Run it first.")
    model = run.build()
    model.load_state_dict(state["model"])
    return model.eval()


def check_scale(scale: str) -> None:
    """One of the two."""
    check.choice("scale", scale, SCALES)
