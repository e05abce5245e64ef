"""The command `phased bench`: a list of the benchmarks, and a command for each."""

from __future__ import annotations

import subprocess
import sys
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from phased import files
from phased.cli.errors import fail, plain_errors
from phased.cli.options import command, path, with_signature
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


class Benchmarks(TyperGroup):
    """A command for each benchmark, which is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, about in BENCHMARKS.items():
            self.add_command(TyperCommand(name, help=about))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the benchmark that is named."""
        if args[0] not in BENCHMARKS:
            known = ", ".join(BENCHMARKS)
            raise typer.BadParameter(f"there is no benchmark '{args[0]}'. Choose one of {known}.", param_hint="NAME")
        try:
            return args[0], command_of(args[0]), args[1:]
        except ModuleNotFoundError as error:
            fail(f"this needs {error.name}, which is not installed. Install it with: pip install 'phased[lab]'")


def command_of(name: str) -> Any:
    """Make the command of a benchmark. Options are the shared options and the annotated arguments of the cases."""
    from phased_lab.bench.cases import load

    found = load(name)

    def measure(json: Path | None, quick: bool, instructions: str | None = None, **options: Any) -> None:
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
                console.print(f"  {json}", soft_wrap=True, markup=False, highlight=False)

    shared = {"json": (Json, None), "quick": (Quick, False)} | ({"instructions": (Instructions, None)} if found.restricts else {})
    own = [each for each in signature(found.cases, eval_str=True).parameters.values() if get_origin(each.annotation) is Annotated]
    common = [Parameter(each, Parameter.KEYWORD_ONLY, default=value, annotation=kind) for each, (kind, value) in shared.items()]
    return command(name=name, help=f"{BENCHMARKS[name]}\n\n{found.cases.__doc__}")(with_signature(measure, [*common, *own]))


def restrict(instructions: str) -> None:
    """Unless this process is restricted to the instruction set, run the same command in one that is, and exit."""
    from phased.ops.native import core
    from phased_lab.bench.measure import environment, restricted_variables, variables

    available = [] if core is None else core.instruction_sets()
    if instructions not in available:
        fail(f"--instructions must be one that this CPU has, {', '.join(available)}, got {instructions}.", code=2)
    if restricted_variables() != variables(instructions):
        done = subprocess.run([sys.executable, "-m", "phased", *sys.argv[1:]], env=environment(instructions), check=False)
        raise typer.Exit(done.returncode)


app = typer.Typer(cls=Benchmarks, invoke_without_command=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def listed(context: typer.Context) -> None:
    """Measure against other implementations in one run, and print the ratios."""
    if context.invoked_subcommand is None:
        Console().print(Table(("name", "what is measured"), list(BENCHMARKS.items())).to_rich())


bench = typer.main.get_command(app)
