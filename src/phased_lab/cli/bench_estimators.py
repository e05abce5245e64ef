"""`phased bench estimators`: the estimators' accuracy on made-up tasks, as a table; an interrupted run continues."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from phased_lab.bench import estimators
from phased_lab.bench.estimators import TASKS, Fit, Plan
from phased_lab.bench.measure import machine, same_terms
from phased_lab.cli.table import table


@same_terms(threads=1)
def bench_estimators(console: Console, plan: Plan, parts: Path | None) -> dict[str, Any]:
    """Scores of the estimators with several cells on every task."""
    folder = None if parts is None else parts / estimators.identity(plan)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=len(plan.fits()), completed=-1)
        found = estimators.run(plan, folder, lambda fit: bar.update(shown, advance=1, description=str(fit)))
    for task in TASKS:
        console.print(scores(task, plan, found), "")
    return {
        "machine": machine(),
        "plan": asdict(plan),
        "references": estimators.references(plan),
        "fits": [fit._asdict() | part for fit, part in found.items()],
    }


def scores(name: str, plan: Plan, found: dict[Fit, dict[str, Any]]) -> Any:
    """The table of a task."""
    task = TASKS[name]
    train, test = plan.sizes(task)
    rows = table(f"{name}: {train:,} sequences, {test:,} for the test", "", task.score, "least", "greatest", "updates", "s/epoch")
    for cell in estimators.CELLS:
        own = [part for fit, part in found.items() if fit.task == name and fit.cell == cell]
        values = [part["score"] for part in own]
        numbers = [f"{value:.4f}" for value in (mean(values), min(values), max(values))]
        pace = median(part["seconds"] / part["epochs"] for part in own)
        rows.add_row(cell, *numbers, f"{100 * mean(part['updates'] for part in own):.0f} %", f"{pace:.2f}")
    for reference, value in estimators.references(plan).get(name, {}).items():
        rows.add_row(reference, f"{value:.4f}", "", "", "", "")
    return rows
