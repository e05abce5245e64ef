"""Where gates start: laws, numbers and values set by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phased import PhasedLSTM
from phased.init import Constant, LogUniform, Uniform, aligned, draw
from strategies import apart, f64

MANY = 20_000


@pytest.mark.parametrize(
    "law, to_quarters", [(Uniform(-2.0, 6.0), lambda values: (values + 2) / 2), (LogUniform(1.0, 16.0), torch.log2)]
)
def test_a_law_stays_inside_its_ends_and_fills_them_evenly(law, to_quarters):
    """A log-uniform law gives every octave its share."""
    values = law(MANY)
    assert values.dtype == torch.float64
    assert ((values >= law.low) & (values <= law.high)).all()
    quarters = torch.histc(to_quarters(values), 4, 0, 4) / MANY
    assert (abs(quarters - 0.25) < 0.02).all()


def test_the_default_periods_are_the_authors_and_shifts_fill_the_period():
    rnn = PhasedLSTM(1, MANY // 10)
    logs = rnn.period_l0.detach().log()
    assert ((logs >= 1) & (logs <= 6)).all()
    assert logs.mean() == pytest.approx(3.5, abs=0.15)
    share = (rnn.shift_l0 / rnn.period_l0).detach()
    assert ((share >= 0) & (share < 1)).all()
    assert share.mean() == pytest.approx(0.5, abs=0.03)
    assert torch.equal(rnn.ratio_on_l0.detach(), f64([0.05] * (MANY // 10)))


@given(st.floats(0.5, 1e6), st.floats(-1e6, 1e6), st.floats(0.01, 1.0), st.integers(-100, 100))
def test_aligned_gates_are_fully_open_at_a_sensors_samples(interval, start, ratio_on, n):
    (gate,) = PhasedLSTM(1, 1, **aligned(interval, start, ratio_on)).gates()
    assert not any(value.requires_grad for value in gate.parameters())
    sample = f64([start + n * interval])
    assert apart(gate.phase(sample), f64([ratio_on / 2])) < 1e-8
    assert gate(sample).item() == pytest.approx(1.0, abs=1e-5)


def test_values_set_by_hand_are_copied_not_shared():
    mine = f64([1.0, 2.0, 3.0])
    drawn = draw(mine, 3, "period")
    mine[0] = 99.0
    assert drawn.tolist() == [1.0, 2.0, 3.0]


LAWS = [Constant(4.0), Uniform(4.0, 4.0), LogUniform(4.0, 4.0), lambda n: torch.full((n,), 4.0)]


@pytest.mark.parametrize("values", [4, 4.0, *LAWS, torch.full((3,), 4.0), torch.full((3,), 4)])
def test_a_number_a_law_and_a_tensor_say_the_same(values):
    drawn = draw(values, 3, "period")
    assert drawn.dtype == torch.float64
    torch.testing.assert_close(drawn, f64([4.0] * 3))
