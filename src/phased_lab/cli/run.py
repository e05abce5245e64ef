"""The command `phased run`: a list of the experiments, and a command for each, with the options of its study alone."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from phased.cli.errors import RESUMES, need, plain_errors, plain_warnings, print_line, writable
from phased.cli.options import Device, command, listing, path, with_signature
from phased_lab.runs import discovery
from phased_lab.runs.descriptor import Experiment, Study, write
from phased_lab.runs.progress import Show, shown
from phased_lab.table import Table

if TYPE_CHECKING:
    from phased_lab.runs.sweep import Summary

Scale = Annotated[str, typer.Option("--scale", help="paper, or quick: minutes on two cores.")]
Seeds = Annotated[int, typer.Option("--seeds", metavar="N", help="Number of seeds: 0 to N - 1.")]
Results = Annotated[Path, path("--out", metavar="DIR", help="The folder of the results.")]
Pictures = Annotated[Path, path("--out", metavar="DIR", help="The folder to write to.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Runs at the same time on this machine.")]
Cluster = Annotated[str | None, typer.Option("--cluster", metavar="ADDRESS", help="A dask scheduler whose workers do the runs.")]
Only = Annotated[str, typer.Option("--only", metavar="PATTERN", help="Only runs whose names match, with shell wildcards.")]
Animate = Annotated[bool, typer.Option("--animate", help="Write a moving picture (SVG) instead.")]


def command_of(name: str) -> Any:
    """Make the command of a study or a drawing."""
    known = discovery.commands()
    if name not in known:
        names = ", ".join(map(repr, known))
        raise typer.BadParameter(f"there is no experiment '{name}'. Choose one of {names}.", param_hint="NAME")
    found = known[name]
    return of_study(found) if isinstance(found, Study) else of_drawing(found)


def sentence(about: str) -> str:
    """A line of the list as a sentence of the help."""
    return f"{about[0].upper()}{about[1:]}."


app = listing({name: sentence(found.about) for name, found in discovery.commands().items()}, command_of)


@app.callback(invoke_without_command=True, subcommand_metavar="NAME [OPTIONS]")
def listed(context: typer.Context) -> None:
    """Run an experiment of the paper: draw it, or train the runs that have no result yet.

    Without a name, the experiments are listed. `phased run NAME --help` shows the options of one.
    """
    if context.invoked_subcommand is None:
        experiments = discovery.experiments()
        rows = [
            (name, experiments[name].number if name in experiments else "", found.about)
            for name, found in discovery.commands().items()
        ]
        ordered = sorted(rows, key=lambda row: not row[1])  # those of the paper first
        table = Table(("name", "paper", "what it does"), ordered).to_rich()
        for column in table.columns:
            column.justify = "left"
        Console().print(table)


run = typer.main.get_command(app)


def of_study(study: Study) -> Any:
    """The command that trains the runs of a study that have no record yet. The study's own options are the last ones."""

    def train(
        scale: Scale = "paper",
        seeds: Seeds = 5,
        out: Results = Path("results"),
        jobs: Jobs = 1,
        cluster: Cluster = None,
        device: Device = "auto",
        only: Only = "*",
        **options: str | None,
    ) -> None:
        need("distributed", "lab")
        from phased_lab.runs.sweep import runs_of, sweep

        given = {name: value for name, value in options.items() if value is not None}
        console = Console()
        with plain_errors(RESUMES), plain_warnings(console):
            with bars(console) as show:
                if study.experiment.prepare is not None:
                    study.experiment.prepare(given)
                runs = runs_of(study.name, scale, range(seeds), only, given)
                summary = sweep(runs, writable(out), jobs, cluster, device, show)
            print_summary(console, summary)
        if summary.failed:
            raise typer.Exit(1)
        print_line(console, f"To see the results: phased report --results {out}")

    *common, more = signature(train, eval_str=True).parameters.values()
    for name, option in study.experiment.options.items():
        words = {"metavar": "|".join(option.values) or "VALUE", "help": option.about}
        kind = Annotated[str | None, typer.Option(f"--{name.replace('_', '-')}", **words)]
        common.append(more.replace(name=name, kind=Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    return command(name=study.name, help=sentence(study.about))(with_signature(train, common))


def of_drawing(experiment: Experiment) -> Any:
    """The command that draws an experiment without training."""

    def drawing(out: Pictures = Path("out"), animate: Animate = False) -> None:
        need("matplotlib", "lab")
        make: Any = experiment.animate if animate else experiment.draw
        console = Console()
        with plain_errors():
            folder = writable(out)
            with console.status(f"{experiment.name}: computing"):
                files, finding = write(make, folder)
        console.print(f"[bold]{experiment.name}[/]  {escape(experiment.about)}", highlight=False)
        console.print(finding, highlight=False, markup=False)
        for file in files:
            # Not wrapped, so that the path can be copied.
            print_line(console, f"  {file}")

    options = [*signature(drawing, eval_str=True).parameters.values()][: 1 + (experiment.animate is not None)]
    return command(name=experiment.name, help=sentence(experiment.about))(with_signature(drawing, options))


@contextmanager
def bars(console: Console) -> Iterator[Show]:
    """A progress bar for each thing that is being done. Within it, the progress of making data is shown too."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[news]}", markup=False),
    )
    tasks: dict[str, TaskID] = {}
    turn = threading.Lock()  # workers' progress comes in a thread of its own
    with Progress(*columns, console=console, transient=True) as progress:

        def show(what: str, done: int, total: int, news: str = "", /) -> None:
            with turn:
                if what not in tasks:
                    tasks[what] = progress.add_task(what, total=total, news="")
                progress.update(tasks[what], completed=done, news=news)
                if done >= total:
                    progress.remove_task(tasks.pop(what))

        with shown(show):
            yield show


def print_summary(console: Console, summary: Summary) -> None:
    """Print the results, and the runs that failed."""
    rows = []
    for run in (*summary.skipped, *summary.done):
        record = summary.records[run.name]
        opened = "-" if record.updates is None else f"{record.updates:.1%}"
        rows.append((run.name, f"{record.test:.4f}" if math.isfinite(record.test) else "-", opened, f"{record.wall:.0f}"))
    console.print(Table(("run", "test", "updates", "seconds"), rows).to_rich())
    if summary.skipped:
        console.print(f"Finished before, not run again: {len(summary.skipped)}.", highlight=False)
    print_failed(console, summary)


def print_failed(console: Console, summary: Summary) -> None:
    """Print the runs that failed."""
    for name, reason in summary.failed.items():
        print_line(console, f"{name} failed: {reason}", "red")
