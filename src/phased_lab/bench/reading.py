"""Rows a second of `Events.read`, on one core: a long table as CSV, as Parquet, and as a frame in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from phased_lab.bench.cases import Case, Sheet, benchmark, contestants
from phased_lab.bench.measure import compare

VARIABLES, STEPS = 37, 12
"""Variables, and measurements of each in a sequence."""


def frame(rows: int) -> Any:
    """A long table of random numbers in no order: id, time, variable, value."""
    import polars as pl

    random = np.random.default_rng(0)
    number = random.permutation(rows)
    sequence, rest = np.divmod(number, VARIABLES * STEPS)
    variable, step = np.divmod(rest, STEPS)
    names = np.array([f"v{index}" for index in range(VARIABLES)])
    return pl.DataFrame(
        {"id": sequence, "time": 4.0 * step + variable / 64, "variable": names[variable], "value": random.normal(size=rows)}
    )


def measure(rows: int, rounds: int) -> dict[str, Any]:
    """Time reading the table from each source."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # before polars is imported, which has one thread per core otherwise
    from phased.estimator import Events

    table = frame(rows)
    with TemporaryDirectory() as folder:
        csv, parquet = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        table.write_csv(csv)
        table.write_parquet(parquet)

        def read(source: Any) -> None:
            found = len(Events.read(source, unit="h").value)
            if found != rows:
                raise ValueError(f"expected {rows} measurements, got {found}.")

        sources = {"CSV": csv, "Parquet": parquet, "polars": table}
        seconds = compare({name: partial(read, source) for name, source in sources.items()}, rounds, long=True)
    return {"rows": rows, "seconds": seconds}


@benchmark(
    Sheet(
        contestants("a table"),
        {
            "a long table of {rows:,} rows, one core": lambda row: row.label,
            "s": lambda row: f"{row.median():.2f}",
            "rows per second": lambda row: f"{row.case['rows'] / row.median():,.0f}",
        },
    ),
    quick={"rows": 200_000, "rounds": 1},
    threads=1,
)
def reading(rows: int = 4_000_000, rounds: int = 3) -> Iterator[Case]:
    """A long table in no order."""
    yield Case("a table", f"{rows:,} rows", partial(measure, rows, rounds))
