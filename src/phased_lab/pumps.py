"""A small synthetic table with its labels: readings of pumps at irregular times, and which pumps fail."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from phased.files import write_whole

PUMPS = 300


def paths(folder: Path) -> tuple[Path, Path]:
    """Return the paths of the table and of its labels."""
    return folder / "pumps.csv", folder / "pumps-labels.csv"


def write(folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """Write `pumps.csv` (id, time, mode, vibration, temperature) and `pumps-labels.csv` (id, fails). Returns the two paths.

    The vibration of a pump that fails grows while it runs. All pumps vibrate equally on average.
    """
    random = np.random.default_rng(seed)
    readings, labels = [], []
    for pump in range(1, PUMPS + 1):
        fails = bool(random.random() < 0.4)
        hour = np.cumsum(random.gamma(0.7, 2.0, random.integers(25, 60)))
        switch = np.cumsum(random.uniform(4.0, 16.0, 60))
        past = np.searchsorted(switch, hour)
        running, since = past % 2 == 1, hour - np.concatenate([[0.0], switch])[past]
        slope = 0.5 * (since - 4.0) if fails else np.zeros(len(hour))
        vibration = np.where(running, 3.0 + slope, 1.0) + random.normal(0.0, 0.3, len(hour))
        temperature = np.where(running, 60.0 - 15.0 * np.exp(-since / 3), 35.0) + random.normal(0.0, 2.0, len(hour))
        for at, each in enumerate(hour):
            seen = [f"{vibration[at]:.2f}", f"{temperature[at]:.1f}" if random.random() < 0.5 else ""]
            readings.append([pump, f"{each:.2f}", "run" if running[at] else "idle", *seen])
        labels.append([pump, "yes" if fails else "no"])
    heads = ["id", "time", "mode", "vibration", "temperature"], ["id", "fails"]
    for file, head, rows in zip(paths(folder), heads, (readings, labels), strict=True):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([head, *rows])
        write_whole(file, text.getvalue().encode())
    return paths(folder)
