"""The event camera in software beside the real one: recordings of the same digits, compared."""

from __future__ import annotations

from phased_lab.paper.camera import compare
from phased_lab.runs.descriptor import Figures, drawing


@drawing(
    "The event camera in software",
    place=48,
    about="simulated recordings compared with real ones of the same digits; needs N-MNIST and MNIST",
)
def camera() -> Figures:
    """Statistics of the recordings."""
    from phased_lab.paper.camera.figure import draw_camera

    found = compare.run()
    return Figures({"camera": draw_camera(found)}, found.finding)
