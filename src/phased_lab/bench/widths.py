"""Seconds of a training epoch of the estimator at several widths, with a phased layer and with torch's layers in its place."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from phased.estimator import PhasedClassifier
from phased_lab.bench.measure import Timing
from phased_lab.bench.online import STEPS, VARIABLES, made_up
from phased_lab.bench.physionet import CELLS

WIDTHS = (32, 64, 128)
SEQUENCES = 3200
"""As many as a fold of PhysioNet 2012 is trained on."""
FIRST = 2
"""Epochs before this one are not counted."""


def measure(rounds: int, epochs: int, sequences: int, before: Callable[[int, str], None]) -> dict[int, dict[str, Timing]]:
    """Seconds of an epoch on one core, by width and cell; `before` is called before each fit. Cells take turns."""
    events, y = made_up(sequences), np.arange(sequences) % 2
    seconds: dict[int, dict[str, list[float]]] = {width: {cell: [] for cell in CELLS} for width in WIDTHS}
    for _ in range(rounds):
        for width, cells in seconds.items():
            for cell, own in cells.items():
                before(width, cell)
                model = PhasedClassifier(
                    units=width, cell=CELLS[cell], epochs=epochs, patience=epochs, device="cpu", random_state=0
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # random numbers have no classes to learn
                    model.fit(events, y)
                own += [epoch.seconds for epoch in model.report_.curve[FIRST - 1 :]]
    return {width: {cell: Timing.of(own) for cell, own in cells.items()} for width, cells in seconds.items()}


def title(sequences: int) -> str:
    """What is measured."""
    return f"an epoch of {sequences:,} sequences of {STEPS} steps, {VARIABLES} variables, one core"
