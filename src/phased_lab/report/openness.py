"""Openness of the units of a trained network at made-up sample times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from phased.gate import TimeGate
from phased_lab.runs.record import Gates

Array = NDArray[np.float64]
Values = Gates | Array
"""Period, shift and open ratio of each unit, (3, H)."""


def openness(gates: Values, time: Array) -> Array:
    """The openness of each unit at each time (Eq. 6) without a leak, (T, H)."""
    k: Array = _gate(gates)(torch.from_numpy(time)).numpy()
    return k


def is_open(gates: Values, time: Array) -> NDArray[np.bool_]:
    """Return a mask of the updated units at each time, (T, H). It includes units at phase 0 (openness 0)."""
    gate = _gate(gates)
    updated: NDArray[np.bool_] = (gate.phase(torch.from_numpy(time).unsqueeze(-1)) < gate.ratio_on).numpy()
    return updated


def _gate(gates: Values) -> TimeGate:
    return TimeGate(*torch.tensor(np.array(gates))).bounded()


def by_period(gates: Values) -> Array:
    """The units ordered from the shortest period to the longest."""
    values = np.array(gates)
    return values[:, np.argsort(values[0], kind="stable")]


def evenly(items: Sequence[int], most: int) -> list[int]:
    """At most `most` evenly spaced items, including the first and the last."""
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, min(len(items), most))]


def bends(time: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of a line and the points with a change of slope. `time` and `k` are (T,)."""
    kept = np.r_[True, np.abs(np.diff(k, n=2)) > 1e-9, True]
    return time[kept], k[kept]
