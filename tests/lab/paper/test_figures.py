"""The figures that are only drawn: what is computed has the properties that captions state, and is what is drawn."""

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from phased.pictures.style import UNITS
from phased_lab.paper import gate, memory, moving_gates, schedule_figure
from phased_lab.paper.gate import RampTrace, draw_gate, run_ramp, run_rhythm
from phased_lab.runs.descriptor import write

PICTURE = Path(__file__).parents[3] / "docs" / "img" / "gates.svg"


def texts(figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(mpl.text.Text))


# Figure 2


@pytest.fixture(scope="module")
def ramp() -> RampTrace:
    return run_ramp()


def test_the_cell_keeps_its_bits_while_the_gate_is_closed_and_moves_whenever_it_is_open(ramp):
    closed = ramp.openness[1:] == 0
    assert closed.mean() > 0.9
    np.testing.assert_array_equal(np.diff(ramp.cell, axis=0) == 0, closed)
    assert np.all(np.diff(ramp.cell, axis=0) >= 0)


def test_the_cell_state_is_eq_8_with_the_input_as_proposal(ramp):
    c = np.zeros(ramp.cell.shape[1])
    for k, x, cell in zip(ramp.openness, ramp.ramp, ramp.cell, strict=True):
        c = k * np.tanh(x) + (1 - k) * c
        np.testing.assert_allclose(cell, c, rtol=1e-12)
    step, unit = np.nonzero(ramp.openness > 1 - 1e-9)
    assert set(unit) == {0, 1, 2}
    np.testing.assert_allclose(ramp.cell[step, unit], ramp.ramp[step], rtol=0.004)


def test_units_of_the_ramp_open_first_at_their_common_shift(ramp):
    first = ramp.time[np.argmax(ramp.openness > 0, axis=0)]
    np.testing.assert_allclose(first, gate.SHIFT + ramp.time[1])


def test_a_rhythm_repeats_after_its_period_and_is_open_for_ratio_on_of_it():
    rhythm = run_rhythm()
    interval = rhythm.time[1]
    for tau, k in zip(gate.OWN_PERIODS, rhythm.openness.T, strict=True):
        period = round(tau / interval)
        np.testing.assert_allclose(k[period:], k[:-period], atol=1e-9)
        # The first instant of an open phase lies on the grid, and there k is still 0: one sample in a period may be missing.
        assert np.sum(k[:period] > 1e-9) == pytest.approx(gate.WIDE * period, abs=1.01)
        assert k.max() == pytest.approx(1.0, abs=2 * interval / (gate.WIDE * tau))


def test_figure_2_names_its_quantities_and_draws_the_cell_states_as_computed(ramp):
    figure = draw_gate(run_rhythm(), ramp)
    words = texts(figure)
    for expected in ("$s$", r"$\tau$", r"$r_{on}\,\tau$", "time (ms)", "input $x$", "gate $k$", "cell $c$"):
        assert expected in words
    (axes,) = (axes for axes in figure.findobj(mpl.axes.Axes) if axes.get_ylabel() == "cell $c$")
    drawn = {line.get_color(): line.get_ydata() for line in axes.get_lines()}
    for colour, c in zip(UNITS, ramp.cell.T, strict=True):
        np.testing.assert_array_equal(drawn[colour], c)


def test_drawing_leaves_matplotlibs_own_settings_alone(tmp_path):
    before = dict(mpl.rcParams)
    write(gate.gate.draw, tmp_path)
    assert dict(mpl.rcParams) == before


def test_the_moving_picture_shows_the_layers_own_values_and_repeats():
    loop = moving_gates.run()
    np.testing.assert_allclose(loop.states[0], loop.states[-1], atol=1e-3)
    np.testing.assert_array_equal(np.diff(loop.states, axis=0) != 0, loop.opened)
    text = moving_gates.draw(loop)
    assert len(text.encode()) < 60_000
    dots = ElementTree.fromstring(text).findall(".//*[@class='dot']")
    assert [float(dot.get("cx")) for dot in dots] == pytest.approx(moving_gates.SCALE * loop.time, abs=0.05)
    assert f"event 37 | updates {loop.opened.sum()} of 222 (7 %)" in text
    for unit in range(6):
        steps = text.partition(f"@keyframes unit{unit}")[2].partition("\n")[0].count("--state")
        assert steps == loop.opened[:, unit].sum()
    assert "prefers-reduced-motion" in text
    assert "prefers-color-scheme:dark" in text


@pytest.mark.skipif(not PICTURE.is_file(), reason="source packages have no docs")
def test_the_pages_have_this_picture():
    kept = PICTURE.read_text(encoding="utf-8")
    made = moving_gates.draw(moving_gates.run())
    assert re.sub(r"[-.\d]+", "", kept) == re.sub(r"[-.\d]+", "", made), "phased run gate --animate --out docs/img"


# Eq. 11


@pytest.fixture(scope="module")
def decay() -> memory.Decay:
    return memory.run()


def test_the_lstm_decays_as_eq_11_says_and_faster_than_any_phased_cell(decay):
    np.testing.assert_allclose(decay.lstm, decay.closed_form, rtol=1e-6)
    assert np.all(decay.phased >= decay.lstm[:, None])


def test_the_phased_cell_decays_by_its_openness_at_open_steps_and_keeps_its_bits_at_others(decay):
    expected = np.cumprod(1 - memory.FORGOTTEN * decay.openness, axis=0)
    np.testing.assert_allclose(decay.phased[1:], expected, rtol=1e-9)
    closed = decay.openness == 0
    np.testing.assert_array_equal(decay.phased[1:][closed], decay.phased[:-1][closed])


def test_a_memory_written_as_the_gate_closes_is_untouched_until_it_opens_again(decay):
    for unit, period in enumerate(memory.PERIODS):
        closed = int((1 - memory.RATIO_ON) * period)
        np.testing.assert_array_equal(decay.phased[:closed, unit], 1.0)


def test_updates_are_the_open_steps_and_the_figure_counts_them(decay):
    np.testing.assert_array_equal(decay.updates, (decay.openness > 0).sum(axis=0))
    assert np.all(decay.updates <= 1.05 * memory.RATIO_ON * memory.STEPS)
    words = texts(memory.draw_memory(decay))
    assert f"LSTM: {memory.STEPS} updates" in words
    for tau, n in zip(memory.PERIODS, decay.updates, strict=True):
        assert rf"$\tau$ = {tau:g} ms: {n} updates" in words


# The schedule


def test_a_schedule_marks_its_open_events_and_nothing_else():
    k = schedule_figure.openness(units=20, steps=60)
    (axes,) = schedule_figure.draw_schedule(k).axes
    (image,) = axes.images
    np.testing.assert_array_equal(np.asarray(image.get_array()) > 0, k > 0)
    assert abs((k > 0).mean() - 0.05) < 0.03
