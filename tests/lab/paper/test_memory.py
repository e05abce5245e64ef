"""Eq. 11 agrees with its closed form."""

import numpy as np
import pytest
import torch

from phased import PhasedLSTM, updates
from phased_lab.paper import memory


@pytest.fixture(scope="module")
def result() -> memory.Decay:
    return memory.run()


def test_the_lstm_decays_as_eq_11_says(result):
    np.testing.assert_allclose(result.lstm, result.closed_form, rtol=1e-6)


def test_the_phased_cell_keeps_its_bits_while_the_gate_is_closed(result):
    closed = result.openness == 0
    np.testing.assert_array_equal(result.phased[1:][closed], result.phased[:-1][closed])


def test_the_phased_cell_decays_by_its_openness_at_open_steps(result):
    expected = np.cumprod(1 - result.numbers.forgotten * result.openness, axis=0)
    np.testing.assert_allclose(result.phased[1:], expected, rtol=1e-9)


def test_a_memory_written_as_the_gate_closes_is_untouched_until_it_opens_again(result):
    settings = result.numbers
    for unit, period in enumerate(settings.period):
        closed = int((1 - settings.ratio_on) * period)
        np.testing.assert_array_equal(result.phased[:closed, unit], 1.0)


def test_updates_are_the_open_steps(result):
    np.testing.assert_array_equal(result.updates, (result.openness > 0).sum(axis=0))
    assert np.all(result.updates <= 1.05 * result.numbers.ratio_on * result.numbers.steps)


def test_the_phased_cell_never_has_less_left_than_the_lstm(result):
    assert np.all(result.phased >= result.lstm[:, None])


def test_with_a_square_gate_the_decay_counts_the_open_updates_and_nothing_else():
    forgotten, units = 0.01, 4
    lstm = memory.forgetful_lstm(units, forgotten)
    rnn = PhasedLSTM.from_lstm(lstm, period=torch.tensor([3.0, 10.0, 40.0, 1e6]), shift=-0.5, ratio_on=0.3, gate="square").eval()
    time = torch.arange(500.0, dtype=torch.float64)
    start = (torch.zeros(1, units, dtype=torch.float64), torch.ones(1, units, dtype=torch.float64))
    _, (_, c) = rnn(torch.zeros(500, 1, dtype=torch.float64), time, start)
    expected = (1 - forgotten) ** updates(rnn, time).to(torch.float64)
    torch.testing.assert_close(c, expected, rtol=1e-9, atol=0.0)
