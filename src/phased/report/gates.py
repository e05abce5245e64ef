"""When the units of a trained network are open: its gates over a clock like those it was trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from phased.experiments.record import Gates
from phased.gate import TimeGate
from phased.report.groups import evenly

Array = NDArray[np.float64]
MOST_UNITS = 250  # of a network: more of them could not be distinguished in a figure


def openness(gates: Gates, time: Array) -> Array:
    """How far each unit is open at each time (Eq. 6) without a leak, (T, H)."""
    k: Array = _gate(gates)(torch.from_numpy(time)).numpy()
    return k


def is_open(gates: Gates, time: Array) -> NDArray[np.bool_]:
    """Which units are updated at each time, (T, H); one whose phase has just begun is, though its openness is still 0."""
    gate = _gate(gates)
    updated: NDArray[np.bool_] = (gate.phase(torch.from_numpy(time).unsqueeze(-1)) < gate.ratio_on).numpy()
    return updated


def _gate(gates: Gates) -> TimeGate:
    period, shift, ratio_on = (torch.tensor(values, dtype=torch.float64) for values in gates)
    return TimeGate(period, shift, ratio_on).bounded()


def by_period(gates: Gates) -> Gates:
    """The same gates, units ordered from the shortest period to the longest."""
    return of_units(gates, np.argsort(gates.period, kind="stable").tolist())


def of_units(gates: Gates, units: Sequence[int]) -> Gates:
    """The gates of some units, in the order in which they are named."""
    return Gates(*(tuple(values[unit] for unit in units) for values in gates))


def some_units(gates: Gates) -> list[int]:
    """The units a figure has room for: all of a usual layer, evenly spread ones of a very large one."""
    return evenly(range(len(gates.period)), MOST_UNITS)


def three_units(gates: Gates) -> list[int]:
    """A unit with a short, one with a middling and one with a long period, of gates ordered by period."""
    last = len(gates.period) - 1
    return [round(part * last) for part in (0.15, 0.5, 0.85)]


def bends(time: Array, k: Array) -> tuple[Array, Array]:
    """The points of a line at which it bends, and its ends: all that is needed to draw it; time and k are (T,)."""
    kept = np.r_[True, np.abs(np.diff(k, n=2)) > 1e-9, True]
    return time[kept], k[kept]
