"""The commands: `phased demo`, `phased run`, `phased bench`, `phased report`, `phased info`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from phased.cli.catalogue import EXPERIMENTS
from phased.cli.folder import writable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Recurrent layers whose units work only when their clock opens them.",
)

KNOWN = ", ".join(f"'{name}' ({experiment.about})" for name, experiment in EXPERIMENTS.items())

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {KNOWN}.", show_default=False)]
What = Annotated[str, typer.Argument(metavar="WHAT", help="cpu, cuda or stream.", show_default=False)]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write what was measured to this file.")]
Quick = Annotated[bool, typer.Option("--quick", help="Less of it, for a first look.")]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="The folder with what was measured.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for the pictures; made if it is not there.")]


@app.command()
def info() -> None:
    """Tell versions, the machine, and which backends can run here, and why the others cannot."""
    from phased.cli.info import describe

    Console().print(describe())


@app.command()
def demo(out: Out = Path("out")) -> None:
    """Draw the paper's Figure 2 and Eq. 11."""
    draw(EXPERIMENTS, out)


@app.command()
def run(name: Name, out: Out = Path("out")) -> None:
    """Compute one experiment of the paper and draw it."""
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"there is no experiment '{name}'. Choose one of {KNOWN}.", param_hint="NAME")
    draw([name], out)


@app.command()
def bench(what: What, json: Json = None, quick: Quick = False) -> None:
    """Measure against peers in one run, and print the ratios."""
    from phased.cli.bench import bench_cpu, bench_cuda, bench_stream, write
    from phased.ops import cpu, cuda

    benches = {"cpu": bench_cpu, "cuda": bench_cuda, "stream": bench_stream}
    if what not in benches:
        raise typer.BadParameter(f"there is no benchmark '{what}'. Choose one of {', '.join(benches)}.", param_hint="WHAT")
    missing = cuda.missing() if what == "cuda" else cpu.MISSING
    if missing is not None:
        fail(missing)
    if json is not None:
        try:
            writable(json.parent, "--json")
        except OSError as error:
            fail(str(error))
    result = benches[what](Console(), quick)
    if json is not None:
        write(json, result)
        Console().print(f"  {json}", soft_wrap=True, markup=False, highlight=False)


@app.command()
def report(results: Results = Path("results"), out: Out = Path("out")) -> None:
    """Draw what was measured; nothing is computed anew."""
    file = results / "bench" / "cpu.json"
    if not file.is_file():
        fail(f"there is no '{file}' to draw. Measure first: phased bench cpu --json {file}")
    try:
        folder = writable(out)
    except OSError as error:
        fail(str(error))
    from phased.report.growth import save_growth

    for picture in save_growth(file, folder):
        Console().print(f"  {picture}", soft_wrap=True, markup=False, highlight=False)


def draw(names: Iterable[str], out: Path) -> None:
    """Run experiments one after the other and say what each found and wrote; what could stop them is found out first."""
    if find_spec("matplotlib") is None:
        fail("drawing needs matplotlib, which is not installed. Install it with: pip install 'phased[figures]'")
    try:
        folder = writable(out)
    except OSError as error:
        fail(str(error))
    console = Console()
    for name in names:
        experiment = EXPERIMENTS[name]
        with console.status(f"{name}: computing"):
            outcome = experiment.run(folder)
        console.print(f"[bold]{name}[/]  {experiment.about}", highlight=False)
        console.print(outcome.finding, highlight=False)
        for file in outcome.files:
            # Not wrapped: a path is there to be copied.
            console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)


def fail(message: str) -> NoReturn:
    """Say what is wrong and what to do, without a traceback."""
    Console(stderr=True).print(f"phased: {message}", style="red", soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(1)
