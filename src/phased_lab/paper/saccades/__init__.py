"""Figure 5: how the digit moves before the event camera, and what the camera reports of it."""

from pathlib import Path

from phased_lab.runs.descriptor import Drawn, Experiment


def draw(folder: Path) -> Drawn:
    """Compute it and write `saccades.png` and `saccades.svg`. Imports are local because only this function needs them."""
    from phased.pictures.save import save
    from phased.pictures.style import styled
    from phased_lab.paper.saccades import compute, figure

    shown = compute.run()
    with styled():
        files = save(figure.draw_saccades(shown), folder, "saccades")
    events = shown.recording
    return Drawn(
        files,
        f"{shown.origin[0].upper()}{shown.origin[1:]}: {len(events)} events in {events.time[-1] / 1000:.0f} ms, "
        f"{1 - events.polarity.mean():.0%} of them where it gets brighter, at most {shown.frame.max()} at one pixel.",
    )


EXPERIMENT = Experiment(
    name="saccades",
    number="Fig. 5",
    title="A digit seen by an event camera",
    place=49,
    about="Figure 5: the three saccades, and the events of a digit as a frame and in space and time",
    draw=draw,
)
