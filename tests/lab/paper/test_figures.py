"""The figures show the numbers of the result."""

import matplotlib as mpl
import numpy as np
import pytest

from phased.pictures.style import UNITS
from phased_lab.paper import memory, schedule
from phased_lab.paper.gate import compute as gate
from phased_lab.paper.gate import gate as figure_2
from phased_lab.paper.gate.figure import draw_gate


@pytest.fixture(scope="module")
def ramp() -> gate.Traces:
    return gate.run()


@pytest.fixture(scope="module")
def decay() -> memory.Decay:
    return memory.run(memory.Equation11(steps=400))


def texts(figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def test_figure_2_names_tau_s_and_r_on_and_puts_units_on_its_axes(ramp):
    words = texts(draw_gate(ramp))
    for expected in ("$s$", r"$\tau$", r"$r_{on}\,\tau$", "time (ms)", "input $x$", "gate $k$", "cell $c$"):
        assert expected in words


def test_figure_2_draws_the_cell_states_as_computed(ramp):
    figure = draw_gate(ramp)
    (axes,) = (axes for axes in figure.findobj(mpl.axes.Axes) if axes.get_ylabel() == "cell $c$")
    drawn = {line.get_color(): line.get_ydata() for line in axes.get_lines()}
    for colour, c in zip(UNITS, ramp.ramp.cell.T, strict=True):
        np.testing.assert_array_equal(drawn[colour], c)


def test_the_memory_figure_counts_each_units_updates(decay):
    words = texts(memory.draw_memory(decay))
    assert f"LSTM: {decay.numbers.steps} updates" in words
    for tau, n in zip(decay.numbers.period, decay.updates, strict=True):
        assert rf"$\tau$ = {tau:g} ms: {n} updates" in words


def test_drawing_leaves_matplotlibs_own_settings_alone(tmp_path):
    before = dict(mpl.rcParams)
    figure_2.draw(tmp_path)
    assert dict(mpl.rcParams) == before


def test_a_schedule_marks_its_open_events_and_nothing_else():
    result = schedule.run(schedule.Example(units=20, steps=60))
    (axes,) = schedule.draw_schedule(result).axes
    (image,) = axes.images
    marked = np.argwhere(np.asarray(image.get_array()) > 0)
    assert {tuple(place) for place in marked} == set(zip(result.unit, result.step, strict=True))
    assert abs(result.share - 0.05) < 0.03
