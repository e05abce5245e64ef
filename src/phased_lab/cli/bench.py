"""The command `phased bench`: a list of the benchmarks, and a command for each."""

from __future__ import annotations

import os
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer
from rich.console import Console

from phased import files
from phased.cli.errors import fail, plain_errors, print_line
from phased.cli.options import command, listing, path, with_signature
from phased_lab.bench import BENCHMARKS
from phased_lab.table import Table

Json = Annotated[
    Path | None,
    path("--json", metavar="FILE", help="Write the measurements to this file after each case. Cases that it has are skipped."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer measurements, for a first look.")]
Instructions = Annotated[
    str | None,
    typer.Option("--instructions", metavar="SET", help="Restrict phased and PyTorch to avx512, avx2 or baseline (SSE)."),
]


def command_of(name: str) -> Any:
    """Make the command of a benchmark. Options are the annotated arguments of `measure` and of the cases."""
    if name not in BENCHMARKS:
        raise typer.BadParameter(f"there is no benchmark '{name}'. Choose one of {', '.join(BENCHMARKS)}.", param_hint="NAME")
    try:
        from phased_lab.bench.cases import load

        found = load(name)
    except ModuleNotFoundError as error:
        fail(f"this needs {error.name}, which is not installed. Install it with: pip install 'phased[lab]'")

    def measure(json: Json = None, quick: Quick = False, instructions: Instructions = None, **options: Any) -> None:
        from phased.ops import backends

        if found.backend is not None and (missing := backends()[found.backend].missing()) is not None:
            fail(missing)
        with plain_errors("" if json is None else f"The same command continues with the cases that '{json}' does not have."):
            if json is not None:
                folders = [each for each in options.values() if isinstance(each, Path)]
                files.check_output(json, [each for folder in folders for each in (folder, *folder.glob("**/"))])
            if instructions is not None:
                restrict(instructions)
            console = Console()
            with console.status("") as status:
                result = found.run(found.plan(quick, **options), json, status.update)
            for table in found.tables(result):
                console.print(table.to_rich(), "")
            if json is not None:
                print_line(console, f"  {json}")

    known = [each for function in (measure, found.cases) for each in signature(function, eval_str=True).parameters.values()]
    shown = [each for each in known if get_origin(each.annotation) is Annotated]
    return command(name=name, help=f"{BENCHMARKS[name]}\n\n{found.cases.__doc__}")(with_signature(measure, shown))


def restrict(instructions: str) -> None:
    """Unless this process is restricted to an instruction set of this CPU, run the same command in one that is, and exit."""
    from phased.ops.native import core
    from phased_lab.bench.measure import RESTRICTED

    available = [] if core is None else core.instruction_sets()
    if instructions not in available:
        fail(f"--instructions must be one that this CPU has, {', '.join(available)}, got {instructions}.", code=2)
    free = {name: value for name, value in os.environ.items() if name not in RESTRICTED["avx2"]}
    if (wanted := free | RESTRICTED[instructions]) != dict(os.environ):
        done = subprocess.run([sys.executable, "-m", "phased", *sys.argv[1:]], env=wanted, check=False)
        raise typer.Exit(done.returncode)


app = listing(BENCHMARKS, command_of, invoke_without_command=True)


@app.callback()
def listed(context: typer.Context) -> None:
    """Measure against other implementations in one run, and print the ratios."""
    if context.invoked_subcommand is None:
        Console().print(Table(("name", "what is measured"), list(BENCHMARKS.items())).to_rich())


bench = typer.main.get_command(app)
