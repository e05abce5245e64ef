"""The schedule of a layer: which units are open at which steps, computed from the timestamps alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from phased.gate import TimeGate
from phased.init import LogUniform
from phased.schedule import schedule as open_events
from phased_lab.runs.descriptor import Array, Drawn, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Example:
    """The settings: samples 0 to 2 ms apart, periods exp U(1, 6) ms, shifts uniform over the period."""

    units: int = 110
    steps: int = 400
    ratio_on: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class OpenEvents:
    """The open events, with units ordered from the shortest period to the longest; each array is (events,)."""

    numbers: Example
    step: NDArray[np.int64]
    unit: NDArray[np.int64]
    openness: Array

    @property
    def share(self) -> float:
        """The share of open events among all units x steps."""
        return len(self.unit) / (self.numbers.units * self.numbers.steps)


def run(numbers: Example) -> OpenEvents:
    """Draw random gates and timestamps, and compute the open events."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(numbers.seed)
        period = LogUniform(math.e, math.e**6)(numbers.units).sort().values
        shift = period * torch.rand(numbers.units, dtype=torch.float64)
        time = (2 * torch.rand(numbers.steps, 1, dtype=torch.float64)).cumsum(0)
    ratio_on = torch.full_like(period, numbers.ratio_on)
    events = open_events(TimeGate(period, shift, ratio_on), time)
    return OpenEvents(numbers, events.rows().numpy(), events.unit.numpy(), events.openness.numpy())


def draw_schedule(events: OpenEvents) -> Figure:
    """A mark for each open event, darker with more openness; the blank rest is not computed."""
    from matplotlib.figure import Figure

    from phased.pictures.style import WIDTH

    numbers = events.numbers
    figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
    axes = figure.subplots()
    image = np.zeros((numbers.units, numbers.steps))
    image[events.unit, events.step] = 0.35 + 0.65 * events.openness
    axes.imshow(image, cmap="Reds", aspect="auto", origin="lower", interpolation="nearest", vmin=0.0, vmax=1.0)
    axes.set_xlabel("step")
    axes.set_ylabel("unit, from short to long period")
    axes.set_title(f"{events.share:.1%} of {numbers.units} units x {numbers.steps} steps are open: only these are computed")
    return figure


@drawing("Schedule", place=22, about="the sparsity: which units are open at which steps, from the timestamps alone")
def schedule() -> Drawn:
    """The open events of random gates at random times."""
    events = run(Example())
    numbers = events.numbers
    found = f"Of {numbers.units} units x {numbers.steps} steps, {len(events.unit)} are open: {events.share:.1%}."
    return Drawn({"schedule": draw_schedule(events)}, found)
