"""Rows a second of `Events.read`, on one core: a long table as CSV, as Parquet, and as a frame in memory.

polars reads how many threads it may use when it is imported, so `measure` runs this module in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

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


def seconds(rows: int, rounds: int) -> dict[str, float]:
    """The median time of reading the table, by where it is."""
    from phased.estimator import Events

    table = frame(rows)
    with TemporaryDirectory() as folder:
        csv, parquet = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        table.write_csv(csv)
        table.write_parquet(parquet)
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, source in (("CSV", csv), ("Parquet", parquet), ("polars", table)):
                begin = time.perf_counter()
                events = Events.read(source, unit="h")
                found.setdefault(name, []).append(time.perf_counter() - begin)
                if len(events.value) != rows:
                    raise ValueError(f"expected {rows} measurements, got {len(events.value)}.")
    return {name: median(values) for name, values in found.items()}


def measure(rows: int, rounds: int) -> dict[str, float]:
    """The same with one thread."""
    one = dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "phased_lab.bench.reading", str(rows), str(rounds)]
    done = subprocess.run(command, env=os.environ | one, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(seconds(int(sys.argv[1]), int(sys.argv[2]))))
