"""The commands `phased fit`, `predict` and `score`."""

from __future__ import annotations

import csv
import io
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from phased import files
from phased.cli import STOPPED
from phased.cli.errors import TERMINATED, Errors, fail, need, plain_errors, plain_warnings, print_line, uninterrupted
from phased.cli.options import AsJson, Device, ModelOut, expanded, named, path, table_named

TASKS = ("auto", "classes", "numbers")
CONTINUES = "The same command continues the training."
AGAIN = "The same command starts anew. With --checkpoint FOLDER it continues a training that was stopped."

TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A CSV or Parquet file, or a folder of them: id, time, variable, value; or id, time and a column per variable.",
        show_default=False,
        parser=table_named,
    ),
]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder that `phased fit` wrote.", show_default=False, parser=named)
]
Static = Annotated[
    list[str] | None, typer.Option("--static", metavar="NAME", help="A variable known once per sequence; may be repeated.")
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="NAME=NUMBER", help="A number that stands for 'not known', such as Height=-1."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="The same seed gives the same model.")]
Kind = Annotated[str, typer.Option("--task", help="classes, numbers, or auto: numbers if a target is a fraction.")]
Budget = Annotated[
    float | None, typer.Option("--updates", metavar="SHARE", help="The largest share of updates of units, such as 0.1.")
]
Checkpoint = Annotated[
    Path | None, path("--checkpoint", metavar="FOLDER", help="An interrupted training continues from this folder.")
]
Store = Annotated[
    Path | None,
    path("--store", metavar="FILE", help="A file for the sequences of a table larger than memory, ending in .safetensors."),
]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="The most epochs.")]
Predictions = Annotated[Path, path("--out", metavar="FILE", help="The CSV file to write: id, then a probability for each class.")]


@dataclass(frozen=True)
class Table:
    """Options of reading a table. None leaves a choice to the table or to the model."""

    unit: Annotated[str | None, typer.Option("--unit", help="Unit of the times: s, min, h, d, ...")] = None
    id: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of ids.")] = None
    time: Annotated[str | None, typer.Option("--time", metavar="COLUMN", help="Column of times.")] = None
    variable: Annotated[str | None, typer.Option("--variable", metavar="COLUMN", help="Column of names of a long table.")] = None
    value: Annotated[str | None, typer.Option("--value", metavar="COLUMN", help="Column of values of a long table.")] = None
    merge: Annotated[
        str | None, typer.Option("--merge", help="Make one step of several at one time: mean, sum, first, last, min or max.")
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="NAME", help="A variable to leave out; may be repeated.")
    ] = None


@dataclass(frozen=True)
class Labels:
    """Options of reading the targets."""

    labels: Annotated[
        Path | None, path("--labels", metavar="FILE", parser=table_named, help="The table of targets: id, target.")
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="Its column of targets. Without --labels: next:NAME, the next value of a variable of the table, or NAME with "
            "--horizon.",
        ),
    ] = None
    horizon: Annotated[
        str | None, typer.Option("--horizon", metavar="TIME", help="The target is the variable's value at this time later: 24h.")
    ] = None
    labels_id: Annotated[str | None, typer.Option("--labels-id", metavar="COLUMN", help="Its column of ids.")] = None
    labels_time: Annotated[
        str | None, typer.Option("--labels-time", metavar="COLUMN", help="Its column of times: a target per step.")
    ] = None
    labelled: Annotated[
        bool, typer.Option("--labelled", help="Leave out sequences without a label, and labels without a sequence.")
    ] = False


@expanded
def fit(
    source: TableFile,
    labels: Labels,
    out: ModelOut,
    table: Table,
    static: Static = None,
    missing: Missing = None,
    task: Kind = "auto",
    updates: Budget = None,
    epochs: Epochs = None,
    checkpoint: Checkpoint = None,
    store: Store = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Train a model on a table of measurements at uneven times, and write it to a folder."""
    need_estimator()
    from phased import check
    from phased.estimator import Events, PhasedClassifier, PhasedRegressor
    from phased.estimator.folder import finished
    from phased.learn.device import is_first

    options: dict[str, Any] = {"updates": updates, "checkpoint": checkpoint, "random_state": seed, "device": device}
    options |= {} if epochs is None else {"epochs": epochs}
    again = AGAIN if checkpoint is None else CONTINUES
    with plain_errors(f"There is no model yet, and '{out}' is as it was. {again}") as came, plain_warnings(Errors()):
        check.choice("--task", task, TASKS)
        check_folders(source, labels, out, checkpoint)  # before the training, which may take long
        events, y = with_targets(
            labels, Events.read(source, static=static, missing=marks(missing or []), store=store, **asdict(table))
        )
        numbers = task == "numbers" or (task == "auto" and (fractions(y) or (labels.labels is None and y.dtype.kind == "f")))
        model = (PhasedRegressor if numbers else PhasedClassifier)(verbose=True, **options).fit(events, y)
        report = model.report_
        place = unfinished(out) if report.interrupted and finished(out) else out
        with uninterrupted():
            model.save(place, command=shlex.join(["phased", *sys.argv[1:]]))
    if not is_first():  # of several processes, the first one writes the model and prints
        return
    with plain_errors(f"The model is in '{place}'."):
        print_line(Console(), f"{report}\n  {place}")
        if report.interrupted:
            kept = "" if place == out else f" The finished model in '{out}' is as it was."
            fail(f"stopped. The unfinished model is in '{place}'.{kept} {again}", TERMINATED if came else STOPPED)


@expanded
def predict(model: ModelFolder, source: TableFile, out: Predictions, table: Table, device: Device = "auto") -> None:
    """Write what a model says of the sequences of a table, which is read as that of the training was."""
    need_estimator()
    from phased.estimator.settings import Settings
    from phased.estimator.tables.read import read_with_times

    with plain_errors(), plain_warnings(Errors()):
        files.check_output(out, (source, model))
        trained = load(model, device)
        events, times = read_with_times(source, Settings.asked(**asdict(table)), trained.table_.settings)
        answer, names = trained._answer(events), trained._target.columns
        columns: dict[str, Any] = {"id": events.ids.tolist()}
        if trained.network_.every_step:
            columns = {"id": events.ids[events.sequence].tolist(), "time": times.to_list()}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*columns, *names])
        writer.writerows(
            [*row, *numbers] for *row, numbers in zip(*columns.values(), answer.reshape(-1, len(names)).tolist(), strict=True)
        )
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(out, text.getvalue().encode())
        console = Console() if out.is_file() else Errors()  # a device may be the standard output
        print_line(console, f"  {out}: {len(events):,} sequences")


@expanded
def score(
    model: ModelFolder,
    source: TableFile,
    labels: Labels,
    table: Table,
    json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Print the scores of a model on a table with targets."""
    need_estimator()
    from phased.estimator import Events

    with plain_errors(), plain_warnings(Errors()):
        trained = load(model, device)
        events, y = with_targets(labels, Events.read(source, like=trained.table_, **asdict(table)))
        found = {**trained.evaluate(events, y), "sequences": len(events)}
        lines = (f"{name:10} {value:,}" if isinstance(value, int) else f"{name:10} {value:.4f}" for name, value in found.items())
        print(dumps(found) if json else "\n".join(lines), flush=True)


def need_estimator() -> None:
    """Exit with the command that installs the extra `estimator`, if a part of it is missing."""
    for module in ("sklearn", "polars"):
        need(module, "estimator")


def with_targets(labels: Labels, events: Any) -> tuple[Any, Any]:
    """Return the sequences and the targets. The sequences remember the named columns for later tables."""
    if labels.labels is None:
        return from_table(labels, events)
    if labels.horizon is not None:
        raise ValueError(f"--horizon is for a target from the table itself, got {labels.horizon!r} with --labels. Leave one out.")
    named = {"id": labels.labels_id, "target": labels.target, "time": labels.labels_time}
    remembered = {**events.settings.labels, **{role: name for role, name in named.items() if name}}
    if labels.labelled and "time" in remembered:
        raise ValueError("--labelled is for a target per sequence. Leave out --labelled, or fit without --labels-time.")
    events = replace(events, settings=replace(events.settings, labels=remembered))
    if labels.labelled:
        found: tuple[Any, Any] = events.labelled(labels.labels, id=labels.labels_id, target=labels.target)
        return found
    return events, events.labels(labels.labels, **named)


def from_table(labels: Labels, events: Any) -> tuple[Any, Any]:
    """Return the sequences and targets that are later values of a variable. The sequences remember which."""
    for option in ("labels_id", "labels_time", "labelled"):
        if getattr(labels, option):
            raise ValueError(f"--{option.replace('_', '-')} is about a table of targets. Pass it as --labels FILE.")
    given = {"target": labels.target, "horizon": labels.horizon}
    named = {option: name for option, name in given.items() if name is not None} if labels.target else {**events.settings.labels}
    target, horizon = named.get("target", ""), labels.horizon or named.get("horizon")
    name = target.removeprefix("next:")
    if not name or (name == target) == (horizon is None):
        got = f"--target {target or 'none'}" + (f" --horizon {horizon}" if horizon else "")
        raise ValueError(f"targets need --labels FILE, --target next:NAME, or --target NAME --horizon TIME, got {got}.")
    events = replace(events, settings=replace(events.settings, labels=named))
    return events, events.future(name, horizon)


def marks(texts: Sequence[str]) -> Any:
    """Numbers that stand for "not known", from options such as "Height=-1", or "-999" for all variables."""
    found: dict[str, list[float]] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            mark = float(number)
        except ValueError:
            mark = math.nan
        if not math.isfinite(mark):
            raise ValueError(f"--missing must be NAME=NUMBER or NUMBER with a finite number, such as Height=-1, got '{text}'.")
        found.setdefault(name or "*", []).append(mark)
    return found or None


def check_folders(source: Path, labels: Labels, out: Path, checkpoint: Path | None) -> None:
    """Raise an error if the model, or the checkpoint of its training, cannot be written."""
    from phased.estimator.folder import finished
    from phased.estimator.tables.formats import FORMATS
    from phased.estimator.training import check_checkpoint
    from phased.model_folder import check_free

    inputs = tuple(each for each in (source, labels.labels) if each is not None)
    if out.suffix.lower() in FORMATS:  # in a folder of tables it would be taken for one of them
        raise ValueError(f"--out must be a folder for the model, got '{out}', the name of a table. Leave out '{out.suffix}'.")
    check_free(out, inputs)
    aside = unfinished(out)
    if finished(out):
        check_free(aside, inputs)
        if finished(aside):
            raise FileExistsError(
                f"'{aside}' must be free for the model of a training that is stopped, got a finished model. Move it away."
            )
    if checkpoint is not None:
        check_checkpoint(checkpoint, inputs)


def unfinished(out: Path) -> Path:
    """Return the folder beside a finished model for an unfinished one."""
    whole = out.resolve() if out.name in ("", "..") else out
    return whole.with_name(f"{whole.name}.unfinished")


def fractions(y: Any) -> bool:
    """Whether targets are numbers and not classes: one of them is a fraction."""
    return y.dtype.kind == "f" and any(number % 1 for number in y[abs(y) < math.inf].tolist())


def load(folder: Path, device: str) -> Any:
    """The model of a folder, of either kind."""
    from phased.estimator import PhasedClassifier, PhasedRegressor
    from phased.estimator.folder import read

    return read(folder, PhasedClassifier, PhasedRegressor).set_params(device=device, verbose=False)
