"""The figure of a benchmark's growth."""

import matplotlib as mpl

from phased_lab.report.drawing import growth


def row(axis, value, **more):
    work = {"B": 1, "T": 10, "D": 1, "H": 4, "ratio_on": 0.05} | {axis: value}
    return {"axis": axis, "work": work, "sparse": 1e-3 * value, "nn.LSTM": None if value == 3 else 1e-2} | more


def benchmark(**more):
    """What `phased bench cpu` writes, with fields of the first row changed."""
    rows = [row(axis, value) for axis in growth.AXES for value in (1, 2, 3)]
    return {"growth": [rows[0] | more, *rows[1:]]}


def test_growth_draws_every_measured_point(tmp_path):
    measured = benchmark()
    figure = growth.draw_growth({axis: growth.points(measured, axis) for axis in growth.AXES})
    for axes in figure.axes:
        peer, ours = (line.get_ydata() for line in axes.lines)
        assert list(ours) == [1.0, 2.0, 3.0]
        assert list(peer) == [10.0, 10.0]
    assert [path.name for path in growth.save_growth(measured, tmp_path)] == [
        "growth.png",
        "growth.svg",
        "speed.png",
        "speed.svg",
    ]


def test_without_a_peer_or_a_second_point_ours_is_drawn():
    measured = {"growth": [row(axis, 3) for axis in growth.AXES]}
    figure = growth.draw_growth({axis: growth.points(measured, axis) for axis in growth.AXES})
    assert [list(axes.lines[1].get_ydata()) for axes in figure.axes] == [[3.0]] * 4
    assert "PhasedLSTM, leak=0" in [text.get_text() for text in figure.findobj(mpl.text.Text)]
