"""Seconds of a training epoch of the estimator at several widths, with a phased layer and with torch's layers in its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from phased_lab.bench.cases import Case, Row, Sheet, benchmark, each_case
from phased_lab.bench.estimators import CELLS, epochs_of, fitted_in_turns
from phased_lab.bench.online import STEPS, VARIABLES, made_up

FIRST = 2
"""Epochs before this one are not counted."""
OURS, *OTHERS = CELLS


def measure(width: int, sequences: int, epochs: int, rounds: int) -> dict[str, Any]:
    """Seconds of an epoch by cell."""
    events, y = made_up(sequences), np.arange(sequences) % 2
    models = fitted_in_turns(events, y, rounds * [0], units=width, epochs=epochs, patience=epochs)
    return {"seconds": epochs_of(models, FIRST)}


def of(cell: str, row: Row) -> str:
    """The time of an epoch with another cell, and our speed-up."""
    return f"{row.median(cell):.2f} s, {row.speed_up(OURS, cell)}"


@benchmark(
    Sheet(
        each_case("an epoch"),
        {
            f"an epoch of {{sequences:,}} sequences of {STEPS} steps, {VARIABLES} variables, one core": lambda row: row.label,
            OURS: lambda row: f"{row.median(OURS):.2f} s",
            **{cell: partial(of, cell) for cell in OTHERS},
        },
    ),
    quick={"rounds": 1, "epochs": 2, "sequences": 200},
    threads=1,
)
def widths(rounds: int = 3, epochs: int = 5, sequences: int = 3200, units: tuple[int, ...] = (32, 64, 128)) -> Iterator[Case]:
    """As many sequences as a fold of PhysioNet 2012 is trained on."""
    for width in units:
        yield Case("an epoch", f"{width} units", partial(measure, width, sequences, epochs, rounds))
