"""Units that open at no step of a data set: found, and opened by another shift."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from layers import Doubled, each_direction, each_layer
from phased import LogUniform, PhasedLSTM, never_open, updates, wake
from strategies import clocks, f64, ragged, seeds


@each_layer
@each_direction
@pytest.mark.parametrize("batch_first", [False, True])
def test_units_without_an_update_in_any_sequence_never_open(make, bidirectional, batch_first):
    torch.manual_seed(3)
    rnn = make(3, 50, 2, batch_first=batch_first, bidirectional=bidirectional, period=LogUniform(0.01, 1000))
    time = torch.arange(60).unsqueeze(1) + torch.arange(2)
    time = time.T if batch_first else time
    expected = updates(rnn, time).sum(1) == 0
    assert 0 < expected.sum() < expected.numel()
    assert torch.equal(never_open(rnn, time), expected)
    assert torch.equal(never_open(rnn, list(time if batch_first else time.T)), expected)


@given(seeds, ragged)
def test_padding_and_no_step_open_no_unit(seed, lengths):
    torch.manual_seed(seed)
    rnn, time = PhasedLSTM(1, 30, period=LogUniform(1, 1000)), clocks(9, len(lengths))
    assert torch.equal(never_open(rnn, time, lengths), updates(rnn, time, torch.tensor(lengths)).sum(1) == 0)
    assert never_open(rnn, []).all()
    assert never_open(PhasedLSTM(1, 4, ratio_on=1.0), [[]]).all()


def test_the_leak_opens_no_unit():
    rnn = PhasedLSTM(1, 3, leak=0.5, period=1000.0, shift=500.0)
    assert never_open(rnn, torch.arange(10)).all()


@given(seeds, st.floats(0.001, 1.0), st.sampled_from([2, 30, 300]))
def test_after_waking_every_unit_is_fully_open_at_some_step(seed, ratio_on, steps):
    torch.manual_seed(seed)
    rnn = PhasedLSTM(1, 40, 2, bidirectional=True, period=LogUniform(0.1, 1e6), ratio_on=ratio_on)
    sequences = [clocks(steps, 1).flatten(), torch.arange(steps) + 0.5]
    closed = never_open(rnn, sequences)
    before = [gate.shift.detach().clone() for gate in rnn.gates()]
    assert wake(rnn, sequences) == int(closed.sum())
    assert not never_open(rnn, sequences).any()
    for gate, shift, asleep in zip(rnn.eval().gates(), before, closed, strict=True):
        assert torch.equal(gate.shift[~asleep], shift[~asleep])
        assert (gate(torch.cat(sequences)).amax(0)[asleep] > 0.999).all()
        assert ((gate.shift - shift)[asleep] < gate.period[asleep]).all(), "a shift moves by less than a period"


def test_waking_twice_changes_nothing_and_other_parameters_stay():
    rnn = PhasedLSTM(1, 40, period=LogUniform(1, 1e5), ratio_on=0.01, learn_shift=False)
    state = {name: value.clone() for name, value in rnn.state_dict().items() if not name.startswith("shift")}
    assert wake(rnn, torch.arange(50)) > 0
    assert wake(rnn, torch.arange(50)) == 0
    assert all(torch.equal(rnn.state_dict()[name], value) for name, value in state.items())
    assert not rnn.shift_l0.requires_grad


def test_the_shift_that_opens_a_unit_is_the_nearest():
    rnn = PhasedLSTM(1, 1, period=1000.0, shift=f64([500.0]), ratio_on=0.1)
    wake(rnn, [[0.0, 200.0], [300.0]])
    assert rnn.shift_l0.item() == pytest.approx(950.0)  # open from 950 to 1050, which is 50 in the cycle of 0


def test_microseconds_since_1970_wake_units_too():
    time = 1_700_000_000_000_000 + torch.arange(100) * 1_000_003
    rnn = PhasedLSTM(1, 200, period=LogUniform(1e6, 1e12), ratio_on=1e-3)
    assert wake(rnn, time) > 0
    assert not never_open(rnn, time).any()


def test_parametrised_shifts_are_set_through_their_parametrisation():
    rnn = PhasedLSTM(1, 3, period=1000.0, shift=500.0)
    nn.utils.parametrize.register_parametrization(rnn, "shift_l0", Doubled())
    assert wake(rnn, torch.arange(10)) == 3
    assert not never_open(rnn, torch.arange(10)).any()


@pytest.mark.parametrize(
    "rnn, time, error, message",
    [
        (nn.LSTM(1, 2), torch.arange(5), TypeError, "rnn must be a PhasedLSTM or PhasedGRU, got LSTM"),
        (PhasedLSTM(1, 2), [2.0, 1.0], ValueError, "must not go backwards"),
        (PhasedLSTM(1, 2, device="meta"), [1.0, 2.0], ValueError, "rnn must have values"),
        (PhasedLSTM(1, 2), [], ValueError, r"time must have at least one step, got none\. Pass the times of the training data"),
    ],
)
def test_wrong_arguments_are_refused(rnn, time, error, message):
    for function in (never_open, wake) if len(time) else (wake,):
        with pytest.raises(error, match=message):
            function(rnn, time)


@pytest.mark.gpu
def test_on_a_gpu_the_same_units_never_open():
    rnn = PhasedLSTM(1, 200, period=LogUniform(0.01, 1e4))
    time = torch.arange(100)
    expected = never_open(rnn, time)
    assert torch.equal(never_open(rnn.cuda(), time).cpu(), expected)
    assert wake(rnn, time.cuda()) == int(expected.sum())
    assert not never_open(rnn, time).any()
