"""Run: one training of one network on one task, and the record that it leaves."""

from __future__ import annotations

import json
import platform
import re
import time
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import torch

import phased
from phased import check, files
from phased.experiments.fields import Malformed
from phased.experiments.record import Gates, Record, parse
from phased.layer import PhasedRNN
from phased.learn.batch import Task
from phased.learn.device import make_fabric
from phased.learn.loop import Progress, Trained, Training, fit
from phased.learn.model import Model
from phased.learn.store import CHECKPOINT, load_checkpoint
from phased.machine import device_name, processor

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Scale = Literal["paper", "quick"]
SCALES: tuple[str, ...] = get_args(Scale)


class Configuration(Protocol):
    """The numbers that make a network: a frozen dataclass."""

    @property
    def model(self) -> str:
        """The kind of network, by the name that the experiment's descriptor has for it."""
        ...

    def settings(self) -> dict[str, Any]:
        """All numbers that have a meaning for this model."""
        ...

    def build(self, task: Any, seed: int) -> Model:
        """The network before training."""
        ...


@dataclass(frozen=True)
class Run:
    """Everything that decides a run's numbers, and where it belongs; see `Record`."""

    experiment: str
    condition: str
    scale: Scale
    task: Task
    network: Configuration
    training: Training
    study: str = ""  # "" for the experiment's own
    variant: str = ""  # in words, as figures and tables have it
    tag: str = ""  # the same in a name: "leak0-price0.1"
    data: str = ""
    options: dict[str, str] = field(default_factory=dict, hash=False)  # that `phased run` needs to make it

    @property
    def name(self) -> str:
        """Readable, the same in every session, and fit for a file: frequency-asynchronous-phased-leak0.001-seed0."""
        condition = re.sub(r"exp\((.*),(.*)\)", r"exp\1to\2", self.condition)
        scale = "" if self.scale == "paper" else self.scale
        parts = self.experiment, condition, self.network.model, self.tag, f"seed{self.training.seed}", scale
        return "-".join(part for part in parts if part)

    @property
    def settings(self) -> dict[str, Any]:
        """All numbers of the run, as they are written to its record."""
        return settings_of(self.network, self.training, self.task)

    @property
    def default_settings(self) -> dict[str, Any]:
        """The same with every number at its default, except the model."""
        network = defaults(self.network, keep=("model",))
        return settings_of(network, defaults(self.training), defaults(self.task))

    @property
    def command(self) -> str:
        """The command that makes this run and no other."""
        options = "".join(f" --{name} {value}" for name, value in self.options.items())
        seeds = f"--seeds {self.training.seed + 1}"
        return f"phased run {self.study or self.experiment}{options} --scale {self.scale} {seeds} --only {self.name}"

    def file(self, out: Path) -> Path:
        """The file with the run's record."""
        return out / self.experiment / f"{self.name}.jsonl"

    def study_file(self, out: Path) -> Path:
        """The file with the records of the whole study, where they are gathered."""
        return out / f"{self.study or self.experiment}.jsonl"

    def folder(self, out: Path) -> Path:
        """Where its checkpoint and its log lie, beside the record."""
        return out / self.experiment / self.name

    def build(self) -> Model:
        """The network before training."""
        return self.network.build(self.task, self.training.seed)


def settings_of(network: Any, training: Training, task: Any) -> dict[str, Any]:
    """Settings as JSON gives them back: tuples are lists."""
    described = {"name": type(task).__name__, **vars(task)}
    settings: dict[str, Any] = json.loads(json.dumps({**network.settings(), **asdict(training), "task": described}))
    return settings


def defaults(configuration: Any, keep: tuple[str, ...] = ()) -> Any:
    """A dataclass with the default in every field that has one."""
    if not is_dataclass(configuration) or isinstance(configuration, type):
        return configuration
    found: dict[str, Any] = {}
    for each in fields(configuration):
        if each.name in keep:
            continue
        if each.default is not MISSING:
            found[each.name] = each.default
        elif each.default_factory is not MISSING:
            found[each.name] = each.default_factory()
    return replace(configuration, **found)


def execute(
    run: Run,
    out: Path,
    device: str = "auto",
    progress: Progress | None = None,
    workers: int | None = None,
    fabric: Fabric | None = None,
) -> Record:
    """Train, or go on training, and write the record.

    `fabric`, launched by the caller, takes the place of `device`. By default batches are made ahead for a GPU only: a CPU has its
    cores busy.
    """
    fabric = fabric or make_fabric(device)
    model = run.build()
    before = gates(model)
    workers = int(fabric.device.type == "cuda") if workers is None else workers
    trained = fit(run.task, model, run.training, run.folder(out), fabric, progress, workers)
    record = describe(run, trained, before, gates(model), fabric.device)
    if fabric.is_global_zero:
        write(run.file(out), record)
    fabric.barrier()
    return record


def gates(model: torch.nn.Module) -> Gates | None:
    """Period, shift and open ratio of every unit as they are in force; None for a model without gates."""
    layers = [gate for module in model.modules() if isinstance(module, PhasedRNN) for gate in module.gates()]
    if not layers:
        return None
    return Gates(*(tuple(v for gate in layers for v in getattr(gate, name).detach().tolist()) for name in Gates._fields))


def describe(run: Run, trained: Trained, before: Gates | None, after: Gates | None, device: torch.device) -> Record:
    """The record of a run that is over."""
    return Record(
        experiment=run.experiment,
        study=run.study,
        variant=run.variant,
        data=run.data,
        name=run.name,
        model=run.network.model,
        condition=run.condition,
        scale=run.scale,
        seed=run.training.seed,
        settings=run.settings,
        curve=tuple(trained.curve),
        wall=trained.wall,
        updates=trained.curve[-1].updates,
        before=before,
        after=after,
        versions={"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()},
        machine={"processor": processor(), "device": device_name(device), "threads": torch.get_num_threads()},
        date=time.strftime("%Y-%m-%d"),
        command=run.command,
    )


def write(path: Path, record: Record) -> None:
    """One line of JSON, or no file."""
    files.write_whole(path, record.line().encode())


def read(path: Path) -> Record | None:
    """What `write` wrote; None if there is no such file, NoRecord if something else lies there."""
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, Malformed) as error:
        raise NoRecord(f"'{path}' should hold the result of a run, but does not: {error}. {CURE}") from error


class NoRecord(ValueError):
    """A file lies where a record should, and is none."""


def finished(run: Run, out: Path) -> Record | None:
    """The record of a run, if it has one; a ValueError if it is of other settings, NoRecord if its file holds something else."""
    path = run.file(out)
    record = read(path)
    if record is not None:
        compare(run, record, path)
    return record


def compare(run: Run, record: Record, path: Path) -> None:
    """A ValueError if the record is of other settings. Settings that an older file does not have had their defaults."""
    here, there = run.settings, filled(record.settings, run.default_settings)
    for name in sorted(here.keys() | there.keys()):
        if there.get(name) != here.get(name):
            differs = f"{name} is {there.get(name)!r} there, {here.get(name)!r} here"
            raise ValueError(f"'{path}' has the result of '{run.name}' with other settings: {differs}. {CURE}")


def filled(settings: Any, default: dict[str, Any]) -> dict[str, Any]:
    """Settings with defaults for what they lack, inside too."""
    inner = {
        key: filled(value, default[key]) if isinstance(value, dict) and isinstance(default.get(key), dict) else value
        for key, value in settings.items()
    }
    return default | inner


CURE = "Choose another folder, or move it away to run it again."


def trained(run: Run, out: Path) -> Model:
    """The network of a run as its last checkpoint has it, in eval."""
    state = load_checkpoint(run.folder(out) / CHECKPOINT)
    if state is None or "model" not in state:
        raise FileNotFoundError(f"there is no checkpoint of '{run.name}' in '{out}'. Run it first.")
    model = run.build()
    model.load_state_dict(state["model"])
    return model.eval()


def check_scale(scale: str) -> None:
    """One of the two."""
    check.choice("scale", scale, SCALES)
