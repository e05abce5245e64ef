"""The event camera in software beside the real one: recordings of the same digits, compared."""

from pathlib import Path

from phased_lab.runs.descriptor import Drawn, Experiment


def draw(folder: Path) -> Drawn:
    """Compare, and write `camera` and `camera-maps` as PNG and SVG. Imports are local because only this function needs them."""
    from phased.pictures.save import save
    from phased.pictures.style import styled
    from phased_lab.paper.camera import compare, figure

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
