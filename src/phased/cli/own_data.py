"""The commands `phased fit`, `predict` and `score`: their options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from phased.cli.errors import TERMINATED, Errors, fail, need, plain_errors, plain_warnings
from phased.cli.options import Device, ModelOut, expanded, named, path, table_named
from phased.starting import STOPPED

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
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="The most epochs.")]
Predictions = Annotated[Path, path("--out", metavar="FILE", help="The CSV file to write: id, then a probability for each class.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON, and nothing else.")]


@dataclass(frozen=True)
class Table:
    """How to read a table; None leaves a choice to the table, or to the model."""

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
    """Where the targets are."""

    labels: Annotated[Path, path("--labels", metavar="FILE", parser=table_named, help="The table of targets: id, target.")]
    target: Annotated[str | None, typer.Option("--target", metavar="COLUMN", help="Its column of targets.")] = None
    labels_id: Annotated[str | None, typer.Option("--labels-id", metavar="COLUMN", help="Its column of ids.")] = None
    labels_time: Annotated[
        str | None, typer.Option("--labels-time", metavar="COLUMN", help="Its column of times: a target per step.")
    ] = None
    labelled: Annotated[
        bool, typer.Option("--labelled", help="Leave out sequences without a label, and labels without a sequence.")
    ] = False


CONTINUES = "The same command continues the training."
AGAIN = "The same command starts anew. With --checkpoint FOLDER it continues a training that was stopped."


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
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Train a model on a table of measurements at uneven times, and write it to a folder."""
    need_estimator()
    from phased.cli import estimate
    from phased.cli.cures import as_options

    options = {"updates": updates, "checkpoint": checkpoint, "random_state": seed, "device": device}
    if epochs is not None:
        options["epochs"] = epochs
    again = AGAIN if checkpoint is None else CONTINUES
    stopped = f"There is no model yet, and '{out}' is as it was. {again}"
    with plain_errors(stopped, as_options) as came, plain_warnings(Errors(), as_options):
        report, place = estimate.fit(source, labels, out, table, static, missing or [], task, options)
    with plain_errors(f"The model is in '{place}'."):
        Console().print(f"{report}\n  {place}", soft_wrap=True, markup=False, highlight=False)
        if report.interrupted:
            kept = "" if place == out else f" The finished model in '{out}' is as it was."
            fail(f"stopped. The unfinished model is in '{place}'.{kept} {again}", TERMINATED if came else STOPPED)


@expanded
def predict(model: ModelFolder, source: TableFile, out: Predictions, table: Table, device: Device = "auto") -> None:
    """Write what a model says of the sequences of a table, which is read as that of the training was."""
    need_estimator()
    from phased.cli import estimate
    from phased.cli.cures import of_a_model

    with plain_errors(worded=of_a_model), plain_warnings(Errors(), of_a_model):
        count = estimate.predict(model, source, out, table, device)
        console = Console() if out.is_file() else Errors()  # a device may be the standard output
        console.print(f"  {out}: {count:,} sequences", soft_wrap=True, markup=False, highlight=False)


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
    from phased.cli import estimate
    from phased.cli.cures import of_a_model

    with plain_errors(worded=of_a_model), plain_warnings(Errors(), of_a_model):
        found = estimate.score(model, source, labels, table, device)
        print(estimate.printed(found, json), flush=True)


def need_estimator() -> None:
    """Exit with the command that installs the extra `estimator`, if a part of it is missing."""
    for module in ("sklearn", "polars", "narwhals"):
        need(module, "estimator")
