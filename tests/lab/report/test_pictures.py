"""Labels at the ends of lines never touch, and the same figure gives the same files."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from phased.pictures.annotate import spread
from phased.pictures.save import save
from phased.pictures.style import styled


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.floats(0.01, 3))
def test_labels_are_apart_in_the_order_of_their_lines_and_around_their_middle(lines, apart):
    places = np.array(spread(lines, apart))
    order = np.argsort(lines, kind="stable")
    assert np.all(np.diff(places[order]) >= apart * (1 - 1e-9) - 1e-9)
    assert np.isclose(np.mean(places), np.mean(lines), atol=1e-9)
    assert spread([3.0, 1.0, 2.0], 0.5) == [3.0, 1.0, 2.0], "labels that do not touch stay where their lines are"


def test_a_figure_is_written_as_png_and_svg_and_nothing_else_and_again_with_the_same_bytes(tmp_path):
    def written() -> list[bytes]:
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([0, 1])
        with styled():
            assert save(figure, tmp_path, "name") == [tmp_path / "name.png", tmp_path / "name.svg"]
        return [file.read_bytes() for file in sorted(tmp_path.iterdir())]

    png, svg = first = written()
    assert png.startswith(b"\x89PNG")
    assert b"<svg" in svg
    assert written() == first
