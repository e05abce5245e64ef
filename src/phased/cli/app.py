"""The command `phased`: what is in the library, and the commands of the laboratory, which are imported when they are called."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from phased import __version__
from phased.cli import estimator
from phased.cli.classify_command import classify
from phased.cli.errors import fail

LABORATORY = {
    "demo": "Train three networks on irregular samples, stream events through them, and make a page (one minute).",
    "run": "Run an experiment of the paper: draw it, or train the runs that have no result yet.",
    "report": "Draw the results and make one page of them; nothing is trained or measured.",
    "gather": "Move the results of single runs into one sorted file per study, the form for version control.",
    "bench": "Measure against other implementations in one run, and print the ratios.",
    "lipread": "Recognise the words of clips of GRID, from the speaker's face and voice.",
    "pack": "Make a model for `phased classify` or `phased lipread` from the checkpoint of a finished run.",
}
"""The commands of `phased_lab`, and what their help begins with: the list of commands imports none of them."""


class Commands(TyperGroup):
    """Our own commands, and those of the entry points `phased.commands`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, about in LABORATORY.items():
            self.add_command(TyperCommand(name, help=about))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in LABORATORY:
            installed = [*entry_points(group="phased.commands", name=name)]
            if not installed:
                fail(f"'phased {name}' is not in this installation. Install it again: pip install 'phased[lab]'")
            try:
                command = installed[0].load()
            except ModuleNotFoundError as error:
                fail(f"'phased {name}' needs {error.name}, which is not installed. Install it with: pip install 'phased[lab]'")
        return name, command, rest


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


def print_version(wanted: bool) -> None:
    """Print the version and nothing else."""
    if wanted:
        typer.echo(f"phased {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")]


@app.callback()
def phased(version: Version = False) -> None:
    """Recurrent layers whose units work only when their clock opens them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names that are not UTF-8 are printed with escapes
            stream.reconfigure(errors="backslashreplace")


@app.command()
def info() -> None:
    """Print versions, the machine, the available backends, and why the others are not available."""
    from phased.cli.info import describe

    Console().print(describe())


for command in (classify, estimator.fit, estimator.predict, estimator.score):
    app.command()(command)
