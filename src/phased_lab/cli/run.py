"""The command `phased run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from phased.cli.errors import RESUMES, need, plain_errors, plain_warnings, writable
from phased.cli.options import command, path
from phased_lab.cli.options import name_first, options_help, parse_options
from phased_lab.runs import catalogue
from phased_lab.runs.run import check_scale

ABOUT = {name: about for experiment in catalogue.experiments().values() for name, about in catalogue.commands(experiment).items()}
KNOWN = ", ".join(f"'{name}' ({about})" for name, about in ABOUT.items())

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {KNOWN}.", show_default=False)]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        help="paper, or quick: minutes on two cores. Applies, like the options below, to trained experiments only.",
    ),
]
Seeds = Annotated[int, typer.Option("--seeds", metavar="N", help="Number of seeds: 0 to N - 1.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Runs at the same time on this machine.")]
Cluster = Annotated[str | None, typer.Option("--cluster", metavar="ADDRESS", help="A dask scheduler whose workers do the runs.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")]
Only = Annotated[str, typer.Option("--only", metavar="PATTERN", help="Only runs whose names match, with shell wildcards.")]
Animate = Annotated[bool, typer.Option("--animate", help="Write a moving picture (SVG) instead. 'gate' only.")]
Into = Annotated[Path | None, path("--out", metavar="DIR", help="The folder to write to: results, or out for pictures.")]


@command(epilog=options_help(), context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    name: Name,
    scale: Scale = "paper",
    seeds: Seeds = 5,
    out: Into = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    device: Device = "auto",
    only: Only = "*",
    animate: Animate = False,
) -> None:
    """Run an experiment of the paper: draw it, or train the runs that have no result yet."""
    name, arguments = name_first(name, context.args, ABOUT)
    if name not in ABOUT:
        raise typer.BadParameter(f"there is no experiment '{name}'. Choose one of {KNOWN}.", param_hint="NAME")
    with plain_errors():
        check_scale(scale)
    options = parse_options(name, arguments) if arguments else {}
    if animate and (name not in catalogue.drawn() or catalogue.drawn()[name].animate is None):
        raise typer.BadParameter(f"'{name}' has no moving picture. Leave out --animate.")
    if name in catalogue.drawn():
        draw(name, out or Path("out"), animate)
        return
    need("lightning", "lab")
    need("distributed", "lab")
    from phased_lab.cli.train import bars, print_summary
    from phased_lab.runs.sweep import runs_of, sweep

    console, folder = Console(), out or Path("results")
    with plain_errors(RESUMES), plain_warnings(console):
        prepare = next(each.prepare for each in catalogue.experiments().values() if name in catalogue.commands(each))
        with bars(console) as show:
            if prepare is not None:
                prepare(options)
            runs = runs_of(name, scale, range(seeds), only, options)
            summary = sweep(runs, writable(folder), jobs, cluster, device, show)
        print_summary(console, summary)
    if summary.failed:
        raise typer.Exit(1)
    console.print(f"To see the results: phased report --results {folder}", soft_wrap=True, markup=False, highlight=False)


def draw(name: str, out: Path, animate: bool) -> None:
    """Compute an experiment without training; print its finding and the files it wrote."""
    need("matplotlib", "lab")
    with plain_errors():
        folder = writable(out)
    console = Console()
    experiment = catalogue.drawn()[name]
    make = experiment.animate if animate else experiment.draw
    assert make is not None
    with plain_errors(), console.status(f"{name}: computing"):
        drawn = make(folder)
    console.print(f"[bold]{name}[/]  {escape(experiment.about)}", highlight=False)
    console.print(drawn.finding, highlight=False, markup=False)
    for file in drawn.files:
        # Not wrapped, so that the path can be copied.
        console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
