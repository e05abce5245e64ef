"""What a layer costs: updates per unit, as the paper counts them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from instructions import SETS, using
from phased import PhasedGRU, PhasedLSTM, updates
from phased.cost import openness_cost
from phased.init import LogUniform, Uniform
from phased.schedule import count
from strategies import clocks


def test_nmnists_numbers_give_the_papers_updates_per_neuron():
    """3153 events in 300 ms, 110 units, tau 100 ms, r_on 0.05: 159 +- 2.8 updates per neuron, not 3153 (the paper's Table 1)."""
    means = []
    for seed in range(10):
        torch.manual_seed(seed)
        rnn = PhasedLSTM(41, 110, period=100.0, ratio_on=0.05)
        counts = updates(rnn, clocks(3153, 1, span=300.0).squeeze(1))
        assert counts.shape == (1, 110)
        means.append(counts.double().mean().item())
    assert all(abs(mean - 159) < 3 * 2.8 for mean in means)
    assert abs(sum(means) / len(means) - 159) < 2.8
    assert 3153 / (sum(means) / len(means)) == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("make", [PhasedLSTM, PhasedGRU])
def test_updates_are_counted_for_every_layer_direction_sequence_and_unit(make, batch_first):
    rnn = make(2, 5, num_layers=2, bidirectional=True, batch_first=batch_first, period=9.0, ratio_on=0.2)
    time = clocks(30, 3)
    counts = updates(rnn, time.T if batch_first else time)
    assert counts.shape == (4, 3, 5)
    assert counts.dtype == torch.int64
    for own, (tau, s, r_on, *_) in zip(counts, rnn.gates(), strict=True):
        assert torch.equal(own, (((time.unsqueeze(-1) - s) % tau) / tau < r_on).sum(0))


@given(st.floats(0.01, 1.0))
def test_on_average_a_unit_works_for_its_open_ratio(ratio_on):
    rnn = PhasedLSTM(1, 50, period=13.0, ratio_on=ratio_on)
    share = updates(rnn, clocks(2000, 1, span=1e5)).double().mean() / 2000
    assert share == pytest.approx(ratio_on, abs=0.01)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("steps, batch", [(0, 2), (1, 0), (700, 3)])
def test_the_core_counts_what_the_schedule_does(name, integer, steps, batch):
    torch.manual_seed(0)
    rnn = PhasedLSTM(1, 37, ratio_on=Uniform(1e-4, 1.0), period=LogUniform(1e-3, 1e4))
    with torch.no_grad():
        rnn.shift_l0[3], rnn.ratio_on_l0[5], rnn.period_l0[7] = torch.nan, 2.0, -1.0  # a NaN opens; others have bounds
    time = 1e3 * clocks(steps, batch) if batch else torch.zeros(steps, 0, dtype=torch.float64)
    time = time.long() if integer else time
    lengths = torch.randint(steps + 1, (batch,))
    for own in (None, lengths):
        with using(name):
            found = updates(rnn, time, own)
        assert torch.equal(found[0], count(rnn.gates()[0]._replace(leak=0.0), time, own))


def test_times_without_values_have_counts_without_values():
    with FakeTensorMode():
        rnn, time = PhasedLSTM(1, 4), torch.zeros(5, 2, dtype=torch.float64)
        assert updates(rnn, time).shape == (1, 2, 4)


@pytest.mark.parametrize("training", [True, False])
def test_the_leak_is_not_counted(training):
    rnn = PhasedLSTM(1, 20, leak=0.5, ratio_on=0.1).train(training)
    assert updates(rnn, clocks(500, 2)).double().mean() < 0.2 * 500


def test_the_cost_of_openness_is_the_mean_square_of_the_ratios_in_force_with_its_gradient():
    ratios = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    rnn = PhasedLSTM(1, 4, num_layers=2, ratio_on=ratios, learn_ratio_on=True)
    cost = openness_cost(rnn)
    assert cost.item() == pytest.approx(0.075)
    cost.backward()
    for layer in range(2):
        torch.testing.assert_close(rnn.get_parameter(f"ratio_on_l{layer}").grad, ratios / 4)
        with torch.no_grad():
            rnn.get_parameter(f"ratio_on_l{layer}").copy_(torch.tensor([-3.0, 5.0, 0.0, 1.0]))
    assert openness_cost(rnn).item() == pytest.approx(0.5, abs=1e-5)
