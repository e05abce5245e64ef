"""Peak memory of `fit` of an estimator in a new process, against the memory of the sequences."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from phased_lab.bench.cases import Case, Sheet, benchmark, each_case
from phased_lab.bench.online import made_up

ARRAYS = "ids", "offset", "time", "entry", "variable", "value", "static"
"""The arrays of `Events`. Their size is the memory of the sequences."""
FIT = "fit, less the imports"
PROGRAM = """
import json, sys
import numpy as np
import phased.estimator
from phased_lab.bench.table_models import peak
folder, names, options = (json.loads(text) for text in sys.argv[1:])
before = peak()
arrays = {name: np.load(f"{folder}/{name}.npy") for name in names.pop("arrays")}
events = phased.estimator.Events(unit="h", **arrays, **{name: tuple(each) for name, each in names.items()})
targets = np.random.default_rng(0).integers(0, 2, len(events))
phased.estimator.PhasedClassifier(device="cpu", random_state=0, **options).fit(events, targets)
print(peak() - before)
"""
"""Reads sequences from files, and prints the bytes that it takes to do so and to fit a model."""


def measure(sequences: int, **options: Any) -> dict[str, Any]:
    """Measure the fit of an estimator with these options."""
    events = made_up(sequences)
    arrays = {name: getattr(events, name) for name in ARRAYS}
    with TemporaryDirectory() as folder:
        for name, array in arrays.items():
            np.save(Path(folder) / f"{name}.npy", array)
        names = {"variables": events.variables, "statics": events.statics, "arrays": ARRAYS}
        command = [sys.executable, "-c", PROGRAM, *map(dumps, (folder, names, options))]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    size = sum(array.nbytes for array in arrays.values())
    return {"values": len(events.value), "bytes": {FIT: loads(printed), "the sequences": size}}


@benchmark(
    Sheet(
        each_case("peak memory"),
        {
            "peak memory of `fit`, 37 variables": lambda row: f"{row.label}, {row.case['values']:,} values",
            "the sequences": lambda row: row.value("the sequences"),
            FIT: lambda row: row.value(FIT),
            "ratio": lambda row: f"{row.median(FIT) / row.median('the sequences'):.1f}",
        },
    ),
    quick={"sequences": (2000,)},
)
def memory(sequences: tuple[int, ...] = (4000, 20_000), epochs: int = 1) -> Iterator[Case]:
    """As many sequences as PhysioNet 2012 has, and five times as many."""
    for number in sequences:
        yield Case("peak memory", f"{number:,} sequences", partial(measure, number, epochs=epochs))
