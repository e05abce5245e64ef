"""Drawing a schedule."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from phased.pictures.style import WIDTH
from phased_lab.paper.schedule.compute import OpenEvents


def draw_schedule(events: OpenEvents) -> Figure:
    """A mark for each open event, darker with more openness; the blank rest is not computed."""
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
