"""The command `phased bench`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from phased import files
from phased.cli.errors import fail, need, plain_errors
from phased.cli.options import command, path

What = Annotated[
    str,
    typer.Argument(
        metavar="WHAT",
        help="cpu, cuda, stream, tasks, nmnist, epoch, lipreading, physionet, estimators, widths, online or reading.",
        show_default=False,
    ),
]
Json = Annotated[Path | None, path("--json", metavar="FILE", help="Write the measurements to this file.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer measurements, for a first look.")]
Instructions = Annotated[
    str | None,
    typer.Option("--instructions", metavar="SET", help="Restrict phased and PyTorch to avx512, avx2 or baseline (SSE)."),
]
Folds = Annotated[
    int, typer.Option("--folds", metavar="K", min=2, help="Of physionet: parts, each predicted by models of the others.")
]
BenchSeeds = Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Of physionet and estimators: seeds 0 to N - 1.")]
StaysFolder = Annotated[
    Path | None,
    path(
        "--data",
        metavar="DIR",
        help="Of physionet: the folder with set-a and Outcomes-a.txt. Default: PHASED_DATA/physionet2012.",
    ),
]


@command()
def bench(
    what: What,
    json: Json = None,
    quick: Quick = False,
    instructions: Instructions = None,
    data: StaysFolder = None,
    seeds: BenchSeeds = 5,
    folds: Folds = 5,
) -> None:
    """Measure against other implementations in one run, and print the ratios."""
    from phased.ops import backends
    from phased_lab.cli import bench as measure

    benches: dict[str, Callable[[Console, bool], dict[str, Any]]] = {
        "cpu": measure.bench_cpu,
        "cuda": lambda console, quick: measure.bench_cuda(console, quick, lambda result: keep(beside, result)),
        "stream": measure.bench_stream,
        "tasks": measure.bench_tasks,
        "nmnist": measure.bench_nmnist,
        "epoch": measure.bench_epoch,
        "lipreading": measure.bench_lipreading,
        "online": measure.bench_online,
        "reading": measure.bench_reading,
        "widths": measure.bench_widths,
        "physionet": lambda console, quick: mortality(console, quick, data, seeds, folds, beside),
        "estimators": lambda console, quick: made_up(console, quick, seeds, beside),
    }
    with plain_errors():
        beside = json if json is not None and files.destination(json)[1] else None  # a device has no files beside it
    estimates = what in ("physionet", "estimators", "widths", "online", "reading")
    trains = estimates or what in ("tasks", "epoch", "lipreading")
    if what not in benches:
        raise typer.BadParameter(f"there is no benchmark '{what}'. Choose one of {', '.join(benches)}.", param_hint="WHAT")
    if trains:
        need("lightning", "lab")
    if estimates:
        need("sklearn", "lab")
    missing = None if trains else backends()["cuda" if what == "cuda" else "cpu"].missing()
    if missing is not None:
        fail(missing)
    if json is not None:
        with plain_errors():
            read = (data or physionet()) if what == "physionet" else data
            files.check_output(json, [] if read is None else [read, *read.glob("**/")])
    if instructions is not None:
        again = ["bench", what, *(["--json", str(json)] if json else []), *(["--quick"] if quick else [])]
        if what in ("physionet", "estimators"):
            again += [*(["--data", str(data)] if data else []), "--seeds", str(seeds), "--folds", str(folds)]
        hold_to(instructions, [*again, "--instructions", instructions])
    with plain_errors():
        result = benches[what](Console(), quick)
    if json is not None:
        with plain_errors():
            json.parent.mkdir(parents=True, exist_ok=True)
            measure.write(json, result)
            if what == "cuda" and beside is not None:
                part_of(beside).unlink(missing_ok=True)
        Console().print(f"  {json}", soft_wrap=True, markup=False, highlight=False)


def part_of(json: Path) -> Path:
    """The file beside FILE that has the finished tables of a benchmark that is not finished."""
    return json.with_name(f"{json.name}.part")


def keep(json: Path | None, result: dict[str, Any]) -> None:
    """Write the tables that are finished, so that a benchmark that is stopped loses only the one it was at."""
    from phased_lab.cli.bench import write

    if json is not None:
        write(part_of(json), result)


def hold_to(instructions: str, command: list[str]) -> None:
    """Unless this process is restricted to the instruction set, run the command in one that is, and exit."""
    from phased.ops.core import core
    from phased_lab.bench.instructions import environment, held, variables

    available = [] if core is None else core.instruction_sets()
    if instructions not in available:
        fail(f"--instructions must be one that this CPU has, {', '.join(available)}, got {instructions}.", code=2)
    if held() != variables(instructions):
        done = subprocess.run([sys.executable, "-m", "phased", *command], env=environment(instructions), check=False)
        raise typer.Exit(done.returncode)


def mortality(console: Console, quick: bool, data: Path | None, seeds: int, folds: int, json: Path | None) -> dict[str, Any]:
    """`phased bench physionet`. With a file for the result, finished fits are kept in a folder beside it."""
    from phased_lab.cli.bench_physionet import bench_physionet, plan

    return bench_physionet(
        console, data or physionet(), plan(quick, seeds, folds), None if json is None else json.with_suffix(".parts")
    )


def physionet() -> Path:
    """Return the folder of PhysioNet 2012 if no other is named."""
    return Path(os.environ.get("PHASED_DATA", ".")) / "physionet2012"


def made_up(console: Console, quick: bool, seeds: int, json: Path | None) -> dict[str, Any]:
    """`phased bench estimators`. With a file for the result, finished fits are kept in a folder beside it."""
    from phased_lab.bench import estimators
    from phased_lab.cli.bench_estimators import bench_estimators

    plan = estimators.QUICK if quick else estimators.Plan(seeds=seeds)
    return bench_estimators(console, plan, None if json is None else json.with_suffix(".parts"))
