"""The event camera in software beside the real one: recordings of the same digits, compared."""

from pathlib import Path

from phased.experiments.descriptor import Drawn, Experiment


def draw(folder: Path) -> Drawn:
    """Compare, and write `camera` and `camera-maps` as PNG and SVG. Imports are local because only this function needs them."""
    from phased.paper.camera import compare, figure
    from phased.report.save import save
    from phased.report.style import styled

    found = compare.run()
    with styled():
        files = [
            *save(figure.draw_statistics(found), folder, "camera"),
            *save(figure.draw_maps(found), folder, "camera-maps"),
        ]
    return Drawn(files, figure.finding(found))


EXPERIMENT = Experiment(
    name="camera",
    title="The event camera in software",
    place=48,
    about="simulated recordings compared with real ones of the same digits; needs N-MNIST and MNIST",
    draw=draw,
)
