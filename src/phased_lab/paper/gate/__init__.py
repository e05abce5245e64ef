"""Figure 2: the openness of time gates, and a ramp that passes through them into the cell state."""

from __future__ import annotations

import numpy as np

from phased_lab.runs.descriptor import Drawn, drawing


def animate() -> Drawn:
    """Events that are pushed into a layer."""
    from phased_lab.paper.gate import moving

    loop = moving.run()
    return Drawn({"gates.svg": moving.draw(loop)}, f"{loop.opened.sum()} of {loop.opened.size} updates were computed.")


@drawing(
    "Time gates",
    number="Fig. 2",
    place=20,
    about="Figure 2: when gates open, and a ramp flowing through them into the cell state",
    animate=animate,
)
def gate() -> Drawn:
    """Both halves of Figure 2."""
    from phased_lab.paper.gate import figure

    ramp = figure.run_ramp()
    changed = (np.diff(ramp.cell, axis=0) != 0).mean()
    found = f"The cells followed the ramp at {changed:.1%} of the steps and did not change at all others."
    return Drawn({"gate": figure.draw_gate(figure.run_rhythm(), ramp)}, found)
