"""`phased report`: reads a folder of results once, and makes all figures and the page."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from phased.cli.errors import plain_warnings
from phased_lab.bench import charts
from phased_lab.report.html.page import save_report
from phased_lab.runs.folder import read


def report(console: Console, results: Path, out: Path) -> list[Path]:
    """Write figures and page, and return the files. Skipped files are named on the console and on the page."""
    with plain_warnings(console):
        reading = read(results)
        files = save_report(reading.records, reading.skipped, results, out, charts.figures(results / "bench"))
    for file in files:
        console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
    return files
