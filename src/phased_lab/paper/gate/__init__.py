"""Figure 2: the openness of time gates, and a ramp that passes through them into the cell state."""

from pathlib import Path

from phased_lab.runs.descriptor import Drawn, Experiment


def draw(folder: Path) -> Drawn:
    """Compute it and write `gate.png` and `gate.svg`. Imports are local because only this function needs them."""
    import numpy as np

    from phased.pictures.save import save
    from phased.pictures.style import styled
    from phased_lab.paper.gate import compute, figure

    traces = compute.run()
    changed = (np.diff(traces.ramp.cell, axis=0) != 0).mean()
    with styled():
        files = save(figure.draw_gate(traces), folder, "gate")
    return Drawn(files, f"The cells followed the ramp at {changed:.1%} of the steps and did not change at all others.")


def animate(folder: Path) -> Drawn:
    """Push events into a layer and write `gates.svg`."""
    from phased.pictures.save import save_text
    from phased_lab.paper.gate import moving

    loop = moving.run()
    return Drawn(
        [save_text(moving.draw(loop), folder, "gates.svg")], f"{loop.opened.sum()} of {loop.opened.size} updates were computed."
    )


EXPERIMENT = Experiment(
    name="gate",
    number="Fig. 2",
    title="Time gates",
    place=20,
    about="Figure 2: when gates open, and a ramp flowing through them into the cell state",
    draw=draw,
    animate=animate,
)
