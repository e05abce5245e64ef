"""Made-up sets: the parity of random bits that are known by their changes, and a chaotic series at random times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.estimator import Events

SHORTEST, LONGEST = 2, 31
"""Bits of a stream, as in the code of Lechner and Hasani (2020)."""
LAG, STEP, WARM_UP = 17.0, 0.1, 300.0
"""Delay of the Mackey-Glass equation, step of the solution, time before the first sample."""
GAP, AHEAD = 2.0, 6.0
"""Mean time between samples, and the time to the predicted number, as usual with this series."""


def parity(count: int = 25_000) -> tuple[Events, NDArray[Any]]:
    """Make streams of random bits, one per unit of time. The target is the parity of the sum.

    Only bits that differ from the bit before them, and the last one, are samples: a run of equal bits is known by its duration.
    """
    random = np.random.default_rng(0x0A)
    times, values, y = [], [], np.zeros(count, np.int64)
    for row, size in enumerate(random.integers(SHORTEST, LONGEST, count, endpoint=True)):
        stream = random.integers(0, 2, size)
        sampled = np.ones(size, bool)
        sampled[1:-1] = stream[1:-1] != stream[:-2]
        times.append(np.flatnonzero(sampled) + 1.0)
        values.append(stream[sampled, None].astype(np.float64))
        y[row] = stream.sum() % 2
    return Events.of(times, values), y


def mackey_glass(count: int = 500, samples: int = 1000) -> tuple[Events, NDArray[Any]]:
    """Make the chaotic series of Mackey and Glass at random times. The target of a sample is the series some time later."""
    random = np.random.default_rng(0x36)
    times = np.cumsum(random.exponential(GAP, (count, samples)), 1)
    series = solution(count, float(times.max()) + AHEAD, random)
    grid = STEP * np.arange(len(series))
    now, later = ([np.interp(own + ahead, grid, series[:, row]) for row, own in enumerate(times)] for ahead in (0.0, AHEAD))
    return Events.of(list(times), [own[:, None] for own in now]), np.concatenate(later)


def solution(count: int, duration: float, random: np.random.Generator) -> NDArray[np.float64]:
    """x' = 0.2 x(t - lag) / (1 + x(t - lag)^10) - 0.1 x, by Euler's method, from random constant pasts, (steps, count)."""
    lag, skipped = round(LAG / STEP), round(WARM_UP / STEP)
    x = np.empty((lag + skipped + round(duration / STEP) + 2, count))
    x[:lag] = random.uniform(0.4, 1.3, count)
    for step in range(lag, len(x)):
        past = x[step - lag]
        x[step] = x[step - 1] + STEP * (0.2 * past / (1 + past**10) - 0.1 * x[step - 1])
    return x[lag + skipped :]
