"""Gates: a closed one keeps the state, and each starts and learns as it was set."""

import copy

import pytest
import torch
from torch import nn

from layers import as_hx, assert_equal, each_layer, gates_of, some_state, states
from phased import PhasedGRU, PhasedLSTM
from phased.init import Constant, LogUniform, Uniform
from strategies import BACKENDS, clocks, f64

# Gates


@each_layer
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gate", ["triangle", "square"])
def test_closed_gates_keep_the_state_bit_for_bit(make, backend, gate):
    """In eval the leak is gone: units that are closed at every step end as they began."""
    rnn = make(3, 8, 2, period=1000.0, shift=500.0, leak=0.3, gate=gate, backend=backend).eval()
    hx = some_state(make, 2, 4, 8, dtype=torch.float32)
    held = states(hx)[0][1].expand(30, 4, 8)
    assert_equal(rnn(1e3 * torch.randn(30, 4, 3), clocks(30, 4, span=400.0), hx), (held, hx))


@each_layer
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_unit_that_is_closed_at_a_step_does_not_change_at_it(make, backend):
    rnn = make(3, 20, period=LogUniform(1, 50), ratio_on=0.2, backend=backend).eval()
    x, time, hx = torch.randn(40, 4, 3), clocks(40, 4), some_state(make, 1, 4, 20, dtype=torch.float32)
    output, _ = rnn(x, time, hx)
    before = torch.cat([states(hx)[0], output[:-1]])
    closed = gates_of(rnn)(time) == 0
    assert 0.5 < closed.double().mean() < 0.95
    assert torch.equal(output[closed], before[closed])
    assert (output[~closed] != before[~closed]).all()


@each_layer
def test_a_closed_unit_passes_its_gradient_untouched(make):
    rnn = make(3, 8, period=1000.0, shift=500.0, leak=0.0)
    hx = as_hx(tuple(s.requires_grad_() for s in states(some_state(make, 1, 4, 8, dtype=torch.float32))))
    x = torch.randn(30, 4, 3, requires_grad=True)
    _, final = rnn(x, clocks(30, 4, span=400.0), hx)
    weights = torch.randn(4, 8)
    sum((s * weights).sum() for s in states(final)).backward()
    for s in states(hx):
        assert torch.equal(s.grad[0], weights)
    assert (x.grad == 0).all()


@each_layer
def test_the_leak_acts_in_training_only(make):
    rnn = make(3, 8, period=1000.0, shift=500.0, leak=0.3)
    tight = copy.deepcopy(rnn)
    tight.leak = 0.0
    x, time = torch.randn(30, 4, 3), clocks(30, 4, span=400.0)
    assert not torch.equal(rnn(x, time)[0], tight(x, time)[0])
    assert_equal(rnn.eval()(x, time), tight(x, time))
    assert_equal(rnn(x, time), tight.eval()(x, time))


def test_every_layer_and_direction_sees_the_same_times():
    """The paper's Figure 2a: the timestamp is distributed to all layers."""
    rnn = PhasedLSTM(2, 6, 2, bidirectional=True, period=50.0, shift=0.0, ratio_on=0.2).eval()
    time = f64([[1.0], [2.0], [20.0], [30.0], [51.0], [80.0]])
    h, c = torch.randn(4, 1, 6), torch.randn(4, 1, 6)
    output, (h_n, c_n) = rnn(torch.randn(6, 1, 2), time, (h, c))
    closed_only = time[[2, 3, 5]]
    _, (h_held, c_held) = rnn(torch.randn(3, 1, 2), closed_only, (h, c))
    assert torch.equal(h_held, h)
    assert torch.equal(c_held, c)
    assert (h_n != h).all()
    assert (c_n != c).all()
    assert torch.equal(output[1, :, :6], output[2, :, :6])  # forwards, closed after step 1
    assert torch.equal(output[2, :, 6:], output[4, :, 6:])  # backwards, closed before step 4


# Settings


def test_a_list_sets_the_gates_layer_by_layer():
    """As the paper's lip reader needs it: U(10, 1000) in the first merged layer, U(500, 3000) in the second."""
    rnn = PhasedLSTM(
        2,
        50,
        3,
        period=[Uniform(10, 1000), Uniform(500, 3000), 7.0],
        shift=[None, 0.0, torch.arange(50)],
        ratio_on=[0.1, Constant(0.2), 1.0],
        learn_period=[True, False, True],
        learn_shift=[False, False, True],
        learn_ratio_on=[True, False, False],
    )
    assert 10 <= rnn.period_l0.min() < rnn.period_l0.max() < 1000
    assert 500 <= rnn.period_l1.min() < rnn.period_l1.max() < 3000
    assert (rnn.period_l2 == 7).all()
    assert (rnn.shift_l0 < rnn.period_l0).all()
    assert (rnn.shift_l1 == 0).all()
    assert rnn.shift_l2.tolist() == list(range(50))
    assert [rnn.get_parameter(f"ratio_on_l{n}")[0].item() for n in range(3)] == [0.1, 0.2, 1.0]
    for name, flags in {"period": (1, 0, 1), "shift": (0, 0, 1), "ratio_on": (1, 0, 0)}.items():
        assert [rnn.get_parameter(f"{name}_l{n}").requires_grad for n in range(3)] == list(map(bool, flags))


@each_layer
def test_by_default_period_and_shift_are_learned_the_ratio_is_fixed_and_nothing_leaks_in_training(make):
    rnn = make(2, 4)
    assert [value.requires_grad for value in rnn._operands().gates[0].parameters()] == [True, True, False]
    assert (rnn.ratio_on_l0 == 0.05).all()
    assert rnn.training
    assert [gate.leak for gate in rnn.gates()] == [0]


@pytest.mark.parametrize("name", ["period", "shift", "ratio_on"])
@pytest.mark.parametrize("learned", [True, False])
def test_each_of_the_three_is_learned_or_frozen(name, learned):
    flags = {f"learn_{other}": (other == name) == learned for other in ("period", "shift", "ratio_on")}
    rnn = PhasedLSTM(2, 4, period=8.0, ratio_on=0.5, **flags)
    rnn(torch.randn(20, 3, 2), clocks(20, 3))[0].square().sum().backward()
    for other in ("period", "shift", "ratio_on"):
        parameter = rnn.get_parameter(f"{other}_l0")
        assert parameter.requires_grad == flags[f"learn_{other}"]
        assert (parameter.grad is not None and bool(parameter.grad.any())) == flags[f"learn_{other}"]


def test_parameters_carry_torchs_names_and_the_gates_own():
    rnn = PhasedLSTM(2, 4, peephole=True)
    torchs = [name for name, _ in nn.LSTM(2, 4).named_parameters()]
    own = ["period_l0", "shift_l0", "ratio_on_l0", "weight_ci_l0", "weight_cf_l0", "weight_co_l0"]
    assert {name for name, _ in rnn.named_parameters()} == {*torchs, *own}


def test_weights_start_as_torchs_do():
    rnn = PhasedLSTM(20, 100, peephole=True)
    for name, weight in rnn.named_parameters():
        if name.startswith(("weight", "bias")):
            assert -0.1 <= weight.min() < -0.08, name
            assert 0.08 < weight.max() <= 0.1, name


def test_reset_parameters_draws_anew_from_the_same_laws():
    rnn = PhasedLSTM(2, 50, period=LogUniform(10, 20))
    before = copy.deepcopy(rnn.state_dict())
    rnn.reset_parameters()
    assert ((rnn.period_l0 >= 10) & (rnn.period_l0 <= 20)).all()
    changed = {name for name, value in rnn.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == set(before) - {"ratio_on_l0"}


def test_its_repr_says_what_it_is():
    text = repr(PhasedLSTM(3, 5, num_layers=2, bidirectional=True, period=7.0, shift=0.0, ratio_on=0.1, peephole=True, leak=0.0))
    for part in ("PhasedLSTM(3, 5", "num_layers=2", "bidirectional=True", "period=7", "ratio_on=0.1", "peephole=True", "leak=0"):
        assert part in text
    assert "batch_first" not in text
    assert "backend" not in text
    assert repr(PhasedGRU(3, 5)).startswith("PhasedGRU(3, 5, ")
    assert repr(PhasedGRU(3, 5, device="meta")).startswith("PhasedGRU(3, 5, ")
