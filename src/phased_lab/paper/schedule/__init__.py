"""The schedule of a layer: which units are open at which steps, computed from the timestamps alone."""

from pathlib import Path

from phased_lab.runs.descriptor import Drawn, Experiment


def draw(folder: Path) -> Drawn:
    """Compute it and write `schedule.png` and `schedule.svg`. Imports are local because only this function needs them."""
    from phased.pictures.save import save
    from phased.pictures.style import styled
    from phased_lab.paper.schedule import compute, figure

    events = compute.run()
    with styled():
        files = save(figure.draw_schedule(events), folder, "schedule")
    numbers = events.numbers
    found = f"Of {numbers.units} units x {numbers.steps} steps, {len(events.unit)} are open: {events.share:.1%}."
    return Drawn(files, found)


EXPERIMENT = Experiment(
    name="schedule",
    title="Schedule",
    place=22,
    about="the sparsity: which units are open at which steps, from the timestamps alone",
    draw=draw,
)
