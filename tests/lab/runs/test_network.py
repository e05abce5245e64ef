"""Networks of the experiments: sizes, initial gates and weights."""

import math

import pytest
import torch

from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs.network import NetworkConfig


@pytest.mark.parametrize("task, phased_inputs", [(Sines(), 1), (Adding(), 2)])
def test_sizes_are_the_papers(task, phased_inputs):
    phased = NetworkConfig("phased").build(task, 0)
    assert (phased.rnn.input_size, phased.rnn.hidden_size) == (phased_inputs, 110)
    for name in ("lstm", "bn-lstm"):
        baseline = NetworkConfig(name).build(task, 0)
        assert (baseline.rnn.lstm.input_size, baseline.rnn.lstm.hidden_size) == (phased_inputs + 1, 110)
        assert baseline.linear.out_features == phased.linear.out_features == (task.classes or 1)


def test_the_same_seed_gives_the_same_network_and_leaves_global_random_numbers_alone():
    before = torch.get_rng_state()
    one, other, third = (NetworkConfig().build(Sines(), seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["rnn.weight_hh_l0"], third["rnn.weight_hh_l0"])
    assert not torch.equal(one["rnn.period_l0"], third["rnn.period_l0"])


def test_gates_start_as_the_network_says():
    config = NetworkConfig(units=500, period=(1.0, 3.0), ratio_on=0.1, learn_ratio_on=False, leak=0.5, peephole=True)
    rnn = config.build(Sines(), 0).rnn
    (gate,) = rnn.gates()
    assert math.e <= gate.period.min() < gate.period.max() <= math.e**3
    assert gate.period.log().mean().item() == pytest.approx(2, abs=0.1)
    assert ((gate.shift >= 0) & (gate.shift <= gate.period)).all()
    assert (gate.ratio_on == 0.1).all()
    assert (gate.leak, rnn.peephole, rnn.ratio_on_l0.requires_grad) == (0.5, True, False)
    assert NetworkConfig().build(Sines(), 0).rnn.ratio_on_l0.requires_grad


@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
def test_the_authors_weights_are_normal_with_a_bias_for_the_input_gate_only(model):
    network = NetworkConfig(model, weights="normal").build(Sines(), 0)
    rnn = network.rnn if model == "phased" else network.rnn.lstm
    assert rnn.get_parameter("weight_hh_l0").std().item() == pytest.approx(0.1, rel=0.05)
    bias = rnn.get_parameter("bias_ih_l0") + rnn.get_parameter("bias_hh_l0")
    assert (bias[:110] == torch.tensor(-0.1)).all()
    assert (bias[110:] == 0).all()
    if model == "phased":
        assert (rnn.get_parameter("ratio_on_l0") == 0.05).all()
