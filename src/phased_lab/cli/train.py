"""`phased run` for experiments with training: progress bars, then a table of results and failures."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from phased_lab.runs.progress import Show, shown
from phased_lab.runs.sweep import Summary
from phased_lab.tables import Table


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
        console.print(f"{name} failed: {reason}", style="red", soft_wrap=True, markup=False, highlight=False)
