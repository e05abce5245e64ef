"""Run: one training of one network on one task, and how its record is written."""

from __future__ import annotations

import json
import platform
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch

import phased
from phased import files
from phased.layer import PhasedRNN
from phased.learn.batch import Task
from phased.learn.device import OneDevice, devices_of, make_fabric
from phased.learn.loop import Progress, Trained, Training, fit
from phased.learn.model import Model
from phased.learn.store import CHECKPOINT, load_checkpoint
from phased.machine import device_name, processor
from phased_lab.runs.network import Network
from phased_lab.runs.record import Gates, Record, flat

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Scale = Literal["paper", "quick"]
SCALES: tuple[str, ...] = get_args(Scale)
PARTS = ("task", "network", "training")
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """Everything that determines the results of a run, and its place among other runs; see `Record`."""

    experiment: str
    condition: str
    scale: Scale
    task: Task
    network: Network
    training: Training
    study: str = ""  # "" for the study with the name of the experiment
    variant: str = ""  # the label in figures and tables
    tag: str = ""  # the variant in file names: "leak0-price0.1"; runs that differ in the variant alone need different tags
    option_tag: str = ""  # the options in file names, if they change it
    condition_tag: str = ""  # the condition in file names, if it should differ from the condition
    data: str = ""
    options: dict[str, str] = field(default_factory=dict, hash=False)  # of `phased run`, to repeat the run

    @property
    def name(self) -> str:
        """A readable, stable name that can be a file name: frequency-asynchronous-phased-leak0.001-seed0."""
        scale = "" if self.scale == "paper" else self.scale
        condition = self.condition_tag or self.condition
        parts = self.experiment, condition, self.network.model, self.tag, self.option_tag, f"seed{self.training.seed}", scale
        return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-") for part in parts if part)

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the run, as they are written to its record."""
        return settings_of(self.network, self.training, self.task)

    @property
    def default_settings(self) -> dict[str, Any]:
        """The settings with every field at its default, except the model."""
        network: Any = type(self.network)
        return settings_of(network(model=self.network.model), Training(), type(self.task)())

    @property
    def command(self) -> str:
        """The command that runs exactly this run."""
        options = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in self.options.items())
        seeds = f"--seeds {self.training.seed + 1}"
        return f"phased run {self.study or self.experiment}{options} --scale {self.scale} {seeds} --only {self.name}"

    def vary(self, **changes: Any) -> Run:
        """The run with other settings: a dict for fields of task, network or training, a value for any field of its own."""
        parts = {name for name in PARTS if isinstance(changes.get(name), dict)}
        return replace(self, **changes | {name: replace(getattr(self, name), **changes[name]) for name in parts})

    def pick(self, **by_scale: T) -> T:
        """The value of its scale: `run.pick(paper=(1e-3, 0.0), quick=(0.0,))`."""
        return by_scale[self.scale]

    def file(self, out: Path) -> Path:
        """The file with the run's record."""
        return out / self.experiment / f"{self.name}.jsonl"

    def study_file(self, out: Path) -> Path:
        """The file with the records of the whole study, after `phased gather`."""
        return out / f"{self.study or self.experiment}.jsonl"

    def folder(self, out: Path) -> Path:
        """The folder of its checkpoint and its log, beside the record."""
        return out / self.experiment / self.name

    def build(self) -> Model:
        """The network before training."""
        model: Model = self.network.build(self.task, self.training.seed)
        return model


def settings_of(network: Any, training: Training, task: Any) -> dict[str, Any]:
    """Settings as JSON returns them: tuples are lists. A field of the task with the metadata {"setting": False} is left out."""
    shown = {each.name: getattr(task, each.name) for each in fields(task) if each.metadata.get("setting", True)}
    described = {"name": type(task).__name__, **shown}
    settings: dict[str, Any] = json.loads(json.dumps({**network.settings(), **asdict(training), "task": described}))
    return settings


def execute(
    run: Run,
    out: Path,
    device: str = "auto",
    progress: Progress | None = None,
    fabric: Fabric | OneDevice | None = None,
) -> Record:
    """Train, or resume training, and write the record.

    `fabric`, launched by the caller, replaces `device`. Batches are prefetched only when training on a GPU: on a CPU training
    itself uses the cores.
    """
    fabric = fabric or make_fabric(device)
    model = run.build()
    before = gates(model)
    trained = fit(
        run.task,
        model,
        run.training,
        run.folder(out),
        fabric,
        progress,
        workers=int(fabric.device.type == "cuda"),
        objective=getattr(model, "objective", None),
        recorded=records(model, fabric),
    )
    record = describe(run, trained, before, gates(model), fabric.device)
    if fabric.is_global_zero:
        files.write_whole(run.file(out), record.line().encode())
    fabric.barrier()
    return record


def records(model: Model, fabric: Fabric | OneDevice) -> bool:
    """Whether training steps of a model are replayed as CUDA graphs: on one GPU, in full precision, if the model allows it."""
    alone = fabric.device.type == "cuda" and fabric.world_size == 1
    return alone and "mixed" not in devices_of(fabric).precision and bool(getattr(model, "recordable", False))


def gates(model: torch.nn.Module) -> Gates | None:
    """Period, shift and open ratio of every unit; None for a model without time gates."""
    layers = [gate for module in model.modules() if isinstance(module, PhasedRNN) for gate in module.gates()]
    if not layers:
        return None
    return Gates(*(tuple(v for gate in layers for v in getattr(gate, name).detach().tolist()) for name in Gates._fields))


def describe(run: Run, trained: Trained, before: Gates | None, after: Gates | None, device: torch.device) -> Record:
    """The record of a finished run."""
    shared = ("experiment", "study", "variant", "data", "name", "condition", "scale", "settings", "command")
    return Record(
        **{name: getattr(run, name) for name in shared},
        model=run.network.model,
        seed=run.training.seed,
        curve=tuple(trained.curve),
        evaluations=trained.evaluations,
        wall=trained.wall,
        updates=trained.curve[-1].updates,
        before=before,
        after=after,
        versions={"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()},
        machine={"processor": processor(), "device": device_name(device), "threads": torch.get_num_threads()},
        date=time.strftime("%Y-%m-%d"),
    )


def compare(run: Run, record: Record, path: Path) -> None:
    """A ValueError if the record is of another run of this name.

    Settings that the record does not have are taken to have their defaults; those that only the record has are ignored.
    """
    there = flat(run.default_settings) | flat(record.settings) | {"study": record.study, "variant": record.variant}
    here = flat(run.settings) | {"study": run.study or run.experiment, "variant": run.variant}
    for name, value in here.items():
        if there.get(name) != value:
            raise ValueError(
                f"'{path}' has the result of '{run.name}' with other settings: {name} is {there.get(name)!r} there, {value!r} "
                "here. Choose another folder, or move it away to run it again."
            )


def trained(run: Run, out: Path) -> Model:
    """The network of a run from its last checkpoint, in eval mode."""
    model = run.build()
    model.load_state_dict(state_of(run, out))
    return model.eval()


def state_of(run: Run | Record, out: Path) -> Mapping[str, torch.Tensor]:
    """The state_dict of a run's network in its last checkpoint."""
    path = out / run.experiment / run.name / CHECKPOINT
    checkpoint = load_checkpoint(path)
    if checkpoint is None or "model" not in checkpoint:
        raise FileNotFoundError(f"there is no checkpoint '{path}'. Make it with: {run.command} --out {shlex.quote(str(out))}")
    state: Mapping[str, torch.Tensor] = checkpoint["model"]
    return state
