"""Networks: what is said of a sequence is said at its last real step."""

import math

import pytest
import torch
from torch import nn

from phased import PhasedGRU, PhasedLSTM
from phased.data.adding import Adding
from phased.data.sines import Sines
from phased.models.baselines import Baseline
from phased.models.classifier import Readout
from phased.models.network import Network

BATCH = Sines().batch(0, "train", 1, 0, 6)


@pytest.mark.parametrize("make", [PhasedLSTM, PhasedGRU])
def test_the_answer_is_read_off_the_last_real_step(make):
    rnn = make(1, 5, num_layers=2, period=3.0, ratio_on=0.5)
    model = Readout(rnn, 3).eval()
    answer = model(BATCH)
    assert answer.shape == (6, 3)
    for b, length in enumerate(BATCH.lengths.tolist()):
        output, _ = rnn(BATCH.x[:length, b], BATCH.time[:length, b])
        torch.testing.assert_close(answer[b], model.linear(output[-1]))


def test_a_regression_has_one_number_a_sequence():
    batch = Adding(length=(10, 12)).batch(0, "train", 1, 0, 4)
    for model in ("phased", "lstm", "bn-lstm"):
        assert Network(model, units=3).build(Adding(), 0)(batch).shape == (4,)


@pytest.mark.parametrize("task, phased_inputs", [(Sines(), 1), (Adding(), 2)])
def test_sizes_are_the_papers(task, phased_inputs):
    phased = Network("phased").build(task, 0)
    assert (phased.rnn.input_size, phased.rnn.hidden_size) == (phased_inputs, 110)
    for name in ("lstm", "bn-lstm"):
        baseline = Network(name).build(task, 0)
        assert (baseline.rnn.lstm.input_size, baseline.rnn.lstm.hidden_size) == (phased_inputs + 1, 110)
        assert baseline.linear.out_features == phased.linear.out_features == (task.classes or 1)


def test_the_same_seed_gives_the_same_network_and_leaves_global_random_numbers_alone():
    before = torch.get_rng_state()
    one, other, third = (Network().build(Sines(), seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["rnn.weight_hh_l0"], third["rnn.weight_hh_l0"])
    assert not torch.equal(one["rnn.period_l0"], third["rnn.period_l0"])


def test_gates_start_as_the_network_says():
    rnn = Network(units=500, period=(1.0, 3.0), ratio_on=0.1, learn_ratio_on=False, leak=0.5, peephole=True).build(Sines(), 0).rnn
    (gate,) = rnn.gates()
    assert math.e <= gate.period.min() < gate.period.max() <= math.e**3
    assert gate.period.log().mean().item() == pytest.approx(2, abs=0.1)
    assert ((gate.shift >= 0) & (gate.shift <= gate.period)).all()
    assert (gate.ratio_on == 0.1).all()
    assert not rnn.get_parameter("ratio_on_l0").requires_grad
    assert gate.leak == 0.5
    assert rnn.peephole
    assert Network().build(Sines(), 0).rnn.get_parameter("ratio_on_l0").requires_grad


@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
def test_the_authors_weights_are_normal_with_a_bias_for_the_input_gate_only(model):
    network = Network(model, weights="normal").build(Sines(), 0)
    rnn = network.rnn if model == "phased" else network.rnn.lstm
    assert rnn.get_parameter("weight_hh_l0").std().item() == pytest.approx(0.1, rel=0.05)
    bias = rnn.get_parameter("bias_ih_l0") + rnn.get_parameter("bias_hh_l0")
    assert (bias[:110] == torch.tensor(-0.1)).all()
    assert (bias[110:] == 0).all()
    if model == "phased":
        assert (rnn.get_parameter("ratio_on_l0") == 0.05).all()


def test_what_cannot_be_read_off_is_refused():
    with pytest.raises(TypeError, match="rnn must be a PhasedLSTM, a PhasedGRU or a Baseline, got LSTM"):
        Readout(nn.LSTM(1, 2), 2)
    with pytest.raises(ValueError, match="one-directional"):
        Readout(PhasedLSTM(1, 2, bidirectional=True), 2)
    with pytest.raises(ValueError, match="model must be one of 'phased', 'lstm', 'bn-lstm', got 'gru'"):
        Network("gru")
    assert isinstance(Network("lstm").build(Sines(), 0).rnn, Baseline)
