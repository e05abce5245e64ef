"""The event camera in software: a digit that it records (Fig. 5), and a comparison with the real camera."""

from __future__ import annotations

from phased_lab.runs.descriptor import Drawn, drawing


@drawing(
    "The event camera in software",
    place=48,
    about="simulated recordings compared with real ones of the same digits; needs N-MNIST and MNIST",
)
def camera() -> Drawn:
    """Statistics of the recordings."""
    from phased_lab.paper.camera import compare

    found = compare.run()
    return Drawn({"camera": compare.draw_camera(found)}, found.finding)


@drawing(
    "A digit seen by an event camera",
    number="Fig. 5",
    place=49,
    about="Figure 5: the three saccades, and the events of a digit as a frame and in space and time",
)
def saccades() -> Drawn:
    """The movement of a digit and its events."""
    from phased_lab.paper.camera import digit

    shown = digit.run()
    return Drawn({"saccades": digit.draw_saccades(shown)}, shown.finding)
