"""The schedule of a layer: of all units at all steps, the few that are open, known from the timestamps alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from phased.experiments.trace import Array
from phased.gate import TimeGate
from phased.init import LogUniform
from phased.schedule import schedule


@dataclass(frozen=True)
class Settings:
    """Samples 0 to 2 ms apart, periods exp U(1, 6) ms, shifts anywhere in the period."""

    units: int = 110
    steps: int = 400
    ratio_on: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """The open events, units counted from the shortest period to the longest; each array is (events,)."""

    settings: Settings
    step: NDArray[np.int64]
    unit: NDArray[np.int64]
    openness: Array

    @property
    def share(self) -> float:
        """The part of all unit steps that is open."""
        return len(self.unit) / (self.settings.units * self.settings.steps)


def run(settings: Settings | None = None) -> Result:
    """Draw a layer's gates and one sequence's timestamps, and list who is open when."""
    settings = settings or Settings()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        period = LogUniform(math.e, math.e**6)(settings.units).sort().values
        shift = period * torch.rand(settings.units, dtype=torch.float64)
        time = (2 * torch.rand(settings.steps, 1, dtype=torch.float64)).cumsum(0)
    ratio_on = torch.full_like(period, settings.ratio_on)
    events = schedule(TimeGate(period, shift, ratio_on), time)
    return Result(settings, events.rows().numpy(), events.unit.numpy(), events.openness.numpy())
