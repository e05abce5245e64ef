"""Parametrised, normalised and pruned: a value that is computed stands in for the parameter everywhere."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from layers import Doubled, Layer, each_layer
from phased import PhasedLSTM, Stream, updates
from phased.cost import openness_cost
from phased.init import LogUniform
from strategies import clocks

WAYS: dict[str, Callable[[Layer, str], object]] = {
    "own": lambda rnn, name: parametrize.register_parametrization(rnn, name, Doubled()),
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "prune": lambda rnn, name: prune.custom_from_mask(
        rnn, name, torch.arange(rnn._value(name).numel()).view_as(rnn._value(name)) != 1
    ),
}
NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_hh_l0", "weight_co_l0", "period_l0", "shift_l0", "ratio_on_l0")
KEEPS_ITS_VALUE = ("own", "weight_norm")  # the others change it when they are applied
each_way = pytest.mark.parametrize("way", WAYS)
each_name = pytest.mark.parametrize("name", NAMES)


def made(way: str, name: str, **settings: object) -> PhasedLSTM:
    """A layer in eval with one parameter computed, after a step of an optimiser that no forward pass has followed."""
    rnn = PhasedLSTM(3, 5, peephole=True, period=LogUniform(2, 40), ratio_on=0.5, learn_ratio_on=True, **settings)
    WAYS[way](rnn, name)
    rnn(torch.randn(9, 4, 3, dtype=rnn.dtype), clocks(9, 4))[0].sum().backward()
    torch.optim.SGD(rnn.parameters(), lr=1e-3).step()
    return rnn.eval()


def plain_twin(rnn: PhasedLSTM) -> PhasedLSTM:
    """A layer whose parameters are the values in force."""
    twin = PhasedLSTM(3, 5, peephole=True, dtype=rnn.dtype).eval()
    rnn._renew()
    (gate,), (weights,) = rnn._operands()
    values = [*weights[:4], *weights.peephole, *gate.parameters()]
    names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_ci", "weight_cf", "weight_co", "period", "shift", "ratio_on"]
    twin.load_state_dict({f"{name}_l0": value.detach() for name, value in zip(names, values, strict=True)})
    return twin


@each_way
@each_name
def test_a_layer_with_a_computed_value_is_the_layer_of_that_value(way, name):
    rnn, x, time = made(way, name), torch.randn(30, 4, 3), clocks(30, 4)
    twin, other = plain_twin(rnn), made(way, name)
    other.load_state_dict(rnn.state_dict())
    assert all(torch.equal(same(x, time)[0], twin(x, time)[0]) for same in (rnn, copy.deepcopy(rnn), other))
    assert torch.equal(updates(rnn, time), updates(twin, time))
    assert openness_cost(rnn).item() == openness_cost(twin).item()
    assert rnn.shortest_open_time() == twin.shortest_open_time()
    torch.testing.assert_close(Stream(rnn).run(x[:, 0], time[:, 0]), twin(x, time)[0][:, 0])
    assert repr(twin).split("period")[1].replace(" learned", "")[:-1] in repr(rnn).replace(" learned", "")


@each_way
@each_name
def test_gradients_reach_what_the_value_is_computed_from(way, name):
    rnn = made(way, name).train()
    rnn.zero_grad()
    rnn(torch.randn(30, 4, 3), clocks(30, 4))[0].square().sum().backward()
    stored = {key: p for key, p in rnn.named_parameters() if name in key}
    assert stored
    assert name not in stored
    assert all(p.grad is not None and p.grad.isfinite().all() for p in stored.values())
    if not (way.endswith("weight_norm") and name in NAMES[2:]):  # a vector of norm g in each entry
        assert any(p.grad.any() for p in stored.values())


@each_way
@each_name
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_a_change_of_dtype_rounds_no_value_of_time_and_all_others(way, name, dtype):
    rnn = made(way, name)
    exact = [value.detach().clone() for value in rnn.gates()[0].parameters()]
    rnn.to(dtype)
    assert rnn.dtype == dtype
    assert all(torch.equal(got, want) for got, want in zip(rnn.gates()[0].parameters(), exact, strict=True))
    output, _ = rnn(torch.randn(9, 4, 3, dtype=dtype), clocks(9, 4))
    assert output.dtype == dtype
    assert output.isfinite().all()
    Stream(rnn).push(torch.randn(3), 0.0)


@each_way
@each_name
def test_reset_parameters_reaches_what_the_value_is_computed_from(way, name):
    rnn = made(way, name)
    before = rnn._current(name).detach().clone()
    torch.manual_seed(3)
    rnn.reset_parameters()
    got = rnn._current(name).detach()
    assert rnn(torch.randn(9, 4, 3), clocks(9, 4))[0].isfinite().all()
    assert not torch.equal(got, before)
    if way in KEEPS_ITS_VALUE and name == "weight_hh_l0":
        torch.manual_seed(3)
        drawn = PhasedLSTM(3, 5, peephole=True, period=LogUniform(2, 40), ratio_on=0.5)
        torch.testing.assert_close(got, drawn.weight_hh_l0.detach())


@each_layer
def test_a_spectral_norm_is_iterated_once_a_forward_pass(make):
    rnn = make(3, 5)
    parametrizations.spectral_norm(rnn, "weight_ih_l0")
    calls = []
    rnn.parametrizations["weight_ih_l0"][0].register_forward_hook(lambda *_: calls.append(1))
    rnn(torch.randn(9, 4, 3), clocks(9, 4))
    assert len(calls) == 1


@each_layer
def test_a_parametrised_torch_layer_is_taken_over_with_the_values_it_computes(make):
    theirs = nn.LSTM(3, 5) if make is PhasedLSTM else nn.GRU(3, 5)
    parametrize.register_parametrization(theirs, "weight_hh_l0", Doubled())
    ours = make.from_lstm(theirs) if make is PhasedLSTM else make.from_gru(theirs)
    assert torch.equal(ours.weight_hh_l0, theirs.weight_hh_l0)


def test_a_gate_whose_parametrisation_was_removed_is_drawn_anew():
    """torch leaves a plain tensor behind where a parametrisation had several originals."""
    rnn = PhasedLSTM(3, 5, ratio_on=0.25)
    nn.utils.parametrizations.weight_norm(rnn, "ratio_on_l0")
    nn.utils.parametrize.remove_parametrizations(rnn, "ratio_on_l0")
    rnn.reset_parameters()
    assert (rnn.ratio_on_l0 == 0.25).all()
