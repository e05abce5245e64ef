"""`phased report`: reads a folder of results once, and makes all figures and the page."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from phased.cli.errors import plain_warnings
from phased.experiments.folder import Reading, read
from phased.report.drawing.growth import save_growth
from phased.report.drawing.pictures import save_pictures
from phased.report.drawing.speedup import save_speedup
from phased.report.html.page import save_page


def report(console: Console, results: Path, out: Path) -> list[Path]:
    """Write figures and page, and return the files. Skipped files are named on the console and on the page."""
    with plain_warnings(console):
        reading = read(results)
        files = save_report(reading, results, out)
        for name, draw in (("cpu", save_growth), ("cuda", save_speedup)):
            bench = results / "bench" / f"{name}.json"
            if os.path.lexists(bench):  # a FIFO or a broken link is named in a warning
                files += draw(bench, out)
    for file in files:
        console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
    return files


def save_report(reading: Reading, results: Path, out: Path) -> list[Path]:
    """Write the page and the pictures of the records."""
    return [save_page(reading, results, out), *save_pictures(reading.records, out)]
