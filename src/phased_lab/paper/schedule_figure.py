"""The schedule of a layer: which units are open at which steps, computed from the timestamps alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from phased import pictures
from phased.gate import TimeGate
from phased.init import LogUniform
from phased.schedule import schedule as open_events
from phased_lab.runs.descriptor import Array, Drawn, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIO_ON = 0.05


def openness(units: int = 110, steps: int = 400) -> Array:
    """The openness of units with random gates at random times, (units, steps), zero where a unit is closed.

    Samples are 0 to 2 ms apart. Periods are exp U(1, 6) ms, from short to long, and shifts uniform over the period.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        period = LogUniform(math.e, math.e**6)(units).sort().values
        shift = period * torch.rand(units, dtype=torch.float64)
        time = (2 * torch.rand(steps, 1, dtype=torch.float64)).cumsum(0)
    events = open_events(TimeGate(period, shift, torch.full_like(period, RATIO_ON)), time)
    found = np.zeros((units, steps))
    found[events.unit.numpy(), events.rows().numpy()] = events.openness.numpy()
    return found


def draw_schedule(k: Array) -> Figure:
    """A mark for each open event, darker with more openness; the blank rest is not computed."""
    figure: Figure = pictures.figure(2.8)
    axes = figure.subplots()
    image = np.where(k > 0, 0.35 + 0.65 * k, 0.0)
    axes.imshow(image, cmap="Reds", aspect="auto", origin="lower", interpolation="nearest", vmin=0.0, vmax=1.0)
    axes.set_xlabel("step")
    axes.set_ylabel("unit, from short to long period")
    axes.set_title(f"{(k > 0).mean():.1%} of {len(k)} units x {len(k[0])} steps are open: only these are computed")
    return figure


@drawing("Schedule", place=22, about="the sparsity: which units are open at which steps, from the timestamps alone")
def schedule() -> Drawn:
    """The open events of random gates at random times."""
    k = openness()
    found = f"Of {len(k)} units x {len(k[0])} steps, {(k > 0).sum()} are open: {(k > 0).mean():.1%}."
    return Drawn({"schedule": draw_schedule(k)}, found)
