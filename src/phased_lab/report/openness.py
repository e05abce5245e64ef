"""Openness of the units of a trained network at made-up sample times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from phased.gate import TimeGate
from phased_lab.runs.record import Gates

Array = NDArray[np.float64]
MOST_UNITS = 150  # in a figure: more could not be distinguished


def openness(gates: Gates, time: Array) -> Array:
    """The openness of each unit at each time (Eq. 6) without a leak, (T, H)."""
    k: Array = _gate(gates)(torch.from_numpy(time)).numpy()
    return k


def is_open(gates: Gates, time: Array) -> NDArray[np.bool_]:
    """Return a mask of the updated units at each time, (T, H). It includes units at phase 0 (openness 0)."""
    gate = _gate(gates)
    updated: NDArray[np.bool_] = (gate.phase(torch.from_numpy(time).unsqueeze(-1)) < gate.ratio_on).numpy()
    return updated


def _gate(gates: Gates) -> TimeGate:
    period, shift, ratio_on = (torch.tensor(values, dtype=torch.float64) for values in gates)
    return TimeGate(period, shift, ratio_on).bounded()


def by_period(gates: Gates) -> Gates:
    """The gates with units ordered from the shortest period to the longest."""
    return of_units(gates, np.argsort(gates.period, kind="stable").tolist())


def of_units(gates: Gates, units: Sequence[int]) -> Gates:
    """The gates of some units, in the given order."""
    return Gates(*(tuple(values[unit] for unit in units) for values in gates))


def some_units(gates: Gates) -> list[int]:
    """The units in a figure: all, or MOST_UNITS evenly spaced ones of a larger layer."""
    return evenly(range(len(gates.period)), MOST_UNITS)


def evenly(items: Sequence[int], most: int) -> list[int]:
    """At most `most` evenly spaced items, including the first and the last."""
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, min(len(items), most))]


def three_units(gates: Gates) -> list[int]:
    """The units with a short, a medium and a long period, of gates ordered by period."""
    last = len(gates.period) - 1
    return [round(part * last) for part in (0.15, 0.5, 0.85)]


def bends(time: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of a line and the points with a change of slope. `time` and `k` are (T,)."""
    kept = np.r_[True, np.abs(np.diff(k, n=2)) > 1e-9, True]
    return time[kept], k[kept]
