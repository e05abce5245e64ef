"""A small synthetic table with its labels: readings of pumps at irregular times, and which pumps fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from phased.files import write_whole

PUMPS = 300
TABLE, LABELS = "pumps.csv", "pumps-labels.csv"


def write(folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """Write `pumps.csv` (id, time, mode, vibration, temperature) and `pumps-labels.csv` (id, fails). Returns the two paths.

    The vibration of a pump that fails grows while it runs. All pumps vibrate equally on average.
    """
    random = np.random.default_rng(seed)
    readings, labels = ["id,time,mode,vibration,temperature"], ["id,fails"]
    for pump in range(1, PUMPS + 1):
        fails = random.random() < 0.4
        labels.append(f"{pump},{'yes' if fails else 'no'}")
        switches = np.cumsum([0.0, *random.uniform(4.0, 16.0, 60)])
        for hour in np.cumsum(random.gamma(0.7, 2.0, random.integers(25, 60))):
            past = np.searchsorted(switches, hour) - 1
            running, since = past % 2 == 1, hour - switches[past]
            vibration = (3.0 + 0.5 * fails * (since - 4.0) if running else 1.0) + random.normal(0.0, 0.3)
            temperature = (60.0 - 15.0 * np.exp(-since / 3) if running else 35.0) + random.normal(0.0, 2.0)
            seen = f"{temperature:.1f}" if random.random() < 0.5 else ""
            readings.append(f"{pump},{hour:.2f},{'run' if running else 'idle'},{vibration:.2f},{seen}")
    for name, lines in ((TABLE, readings), (LABELS, labels)):
        write_whole(folder / name, "\n".join([*lines, ""]).encode())
    return folder / TABLE, folder / LABELS
