"""Counting updates by searching for open phases gives what evaluating every phase gives."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phased.classifier.count import updates
from phased.gate import TimeGate
from phased.schedule import count


def gate(period, shift, ratio_on):
    """Gates of units, float64."""
    return TimeGate(*(torch.tensor(values, dtype=torch.float64) for values in (period, shift, ratio_on)))


def directly(gates, time):
    return sum(int(count(each, torch.from_numpy(time).unsqueeze(1)).sum()) for each in gates)


units = st.lists(
    st.tuples(st.floats(0.01, 500), st.floats(-1000, 1000), st.one_of(st.floats(1e-6, 1), st.just(1.0))), min_size=1, max_size=5
)


@given(st.lists(units, min_size=1, max_size=2), st.lists(st.floats(-50, 400), max_size=60), st.floats(-1e6, 1e6))
def test_the_number_is_that_of_the_gates_themselves(layers, times, begin):
    gates = [gate(*zip(*layer, strict=True)) for layer in layers]
    time = np.sort(np.array(times, np.float64)) + begin
    assert updates(gates, time) == directly(gates, time)


@pytest.mark.parametrize("ratio_on", [0.05, 0.3, 1.0])
def test_events_exactly_at_the_ends_of_open_phases_are_counted_as_the_gate_counts_them(ratio_on):
    """Periods, shifts and times on one grid: thousands of events at the very ends."""
    period = np.array([0.1, 0.3, 1.0, 20.0])
    gates = [gate(period, period * 0.7, np.full(4, ratio_on))]
    time = np.arange(200_000) / 100.0
    assert updates(gates, time) == directly(gates, time)
    time = np.sort(np.concatenate([period[3] * (np.arange(50) + 0.7 + end) for end in (0.0, ratio_on)]).repeat(100))
    assert updates(gates, time) == directly(gates, time)


def test_no_events_make_no_updates():
    assert updates([gate([1.0], [0.0], [0.5])], np.zeros(0)) == 0
