"""`phased run` for experiments with training: progress bars, then a table of results and failures."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from phased_lab.cli.table import table
from phased_lab.runs.progress import shown
from phased_lab.runs.run import Run
from phased_lab.runs.sweep import Summary, sweep
from phased_lab.runs.workers import Event


def train(
    console: Console, runs: list[Run], out: Path, jobs: int, cluster: str | None = None, device: str = "auto", one: bool = False
) -> Summary:
    """Execute the runs that have no record: a progress bar for all, and unless `one` also bars of active runs and a table."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[news]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        whole = progress.add_task("all epochs", total=sum(run.training.epochs for run in runs), news="")
        bars: dict[str, TaskID] = {}
        seen: Counter[str] = Counter()  # epochs

        def watch(event: Event) -> None:
            run = event.run
            if event.epoch is not None:
                if run.name not in bars:
                    bars[run.name] = progress.add_task(run.name, total=run.training.epochs, news="", visible=not one)
                news = f"loss {event.epoch.loss:.3f}, test {event.epoch.test:.3f}"
                progress.update(bars[run.name], completed=event.epoch.epoch, news=news)
                progress.advance(whole, event.epoch.epoch - seen[run.name])
                seen[run.name] = event.epoch.epoch
            elif event.state == "skipped":
                progress.advance(whole, run.training.epochs - seen[run.name])
            if event.state in {"skipped", "done", "failed"} and run.name in bars:
                progress.remove_task(bars.pop(run.name))

        loading: dict[str, TaskID] = {}

        def show_loading(what: str, done: int, total: int) -> None:
            if what not in loading:
                loading[what] = progress.add_task(what, total=total, news="")
            progress.update(loading[what], completed=done)
            if done >= total:
                progress.remove_task(loading.pop(what))

        with shown(show_loading):
            summary = sweep(runs, out, jobs, cluster, device, watch)
    (failures if one else show)(console, summary)
    return summary


def show(console: Console, summary: Summary) -> None:
    """Print the results, and the runs that failed."""
    rows = table("", "run", "test", "updates", "seconds")
    for run in (*summary.skipped, *summary.done):
        record = summary.records[run.name]
        opened = "-" if record.updates is None else f"{record.updates:.1%}"
        rows.add_row(run.name, f"{record.test:.4f}" if math.isfinite(record.test) else "-", opened, f"{record.wall:.0f}")
    console.print(rows)
    if summary.skipped:
        console.print(f"Finished before, not run again: {len(summary.skipped)}.", highlight=False)
    failures(console, summary)


def failures(console: Console, summary: Summary) -> None:
    """Print the runs that failed."""
    for name, reason in summary.failed.items():
        console.print(f"{name} failed: {reason}", style="red", soft_wrap=True, markup=False, highlight=False)
