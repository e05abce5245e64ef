"""`phased report`: reads a folder of results once, and makes all figures and the page."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from phased.cli.errors import plain_warnings
from phased_lab.report.drawing.growth import save_growth
from phased_lab.report.drawing.speedup import save_speedup
from phased_lab.report.html.page import save_report
from phased_lab.runs.folder import read


def report(console: Console, results: Path, out: Path) -> list[Path]:
    """Write figures and page, and return the files. Skipped files are named on the console and on the page."""
    with plain_warnings(console):
        reading = read(results)
        files = save_report(reading.records, reading.skipped, results, out)
        for name, draw in (("cpu", save_growth), ("cuda", save_speedup)):
            bench = results / "bench" / f"{name}.json"
            if bench.exists():
                files += drawn(bench, draw, out)
    for file in files:
        console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
    return files


def drawn(bench: Path, draw: Callable[[Any, Path], list[Path]], out: Path) -> list[Path]:
    """Draw a benchmark's file. A damaged one, or one of another version, is named in a warning."""
    try:
        return draw(json.loads(bench.read_bytes()), out)
    except (ValueError, KeyError, TypeError) as error:
        warnings.warn(f"'{bench}': skipped, it is not the file of a benchmark ({error!r}).", stacklevel=2)
        return []
