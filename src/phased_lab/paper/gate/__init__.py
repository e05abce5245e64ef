"""Figure 2: the openness of time gates, and a ramp that passes through them into the cell state."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from phased_lab.paper.gate import compute, moving
from phased_lab.runs.descriptor import Drawn, Figures, drawing


def animate(folder: Path) -> Drawn:
    """Push events into a layer and write `gates.svg`."""
    from phased.pictures.save import save_text

    loop = moving.run()
    return Drawn(
        [save_text(moving.draw(loop), folder, "gates.svg")], f"{loop.opened.sum()} of {loop.opened.size} updates were computed."
    )


@drawing(
    "Time gates",
    number="Fig. 2",
    place=20,
    about="Figure 2: when gates open, and a ramp flowing through them into the cell state",
    animate=animate,
)
def gate() -> Figures:
    """Both halves of Figure 2."""
    from phased_lab.paper.gate.figure import draw_gate

    traces = compute.run()
    changed = (np.diff(traces.ramp.cell, axis=0) != 0).mean()
    found = f"The cells followed the ramp at {changed:.1%} of the steps and did not change at all others."
    return Figures({"gate": draw_gate(traces)}, found)
