"""Parameter groups: what an optimiser decays, and what it leaves alone."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from layers import Doubled
from phased import PhasedGRU, PhasedLSTM, parameter_groups


def decay_of(model: nn.Module, **options: float) -> dict[str, float]:
    """The weight decay of each parameter, by its name."""
    decays = {id(value): group["weight_decay"] for group in parameter_groups(model, **options) for value in group["params"]}
    return {name: decays[id(value)] for name, value in model.named_parameters()}


def test_layers_anywhere_in_a_model_are_found_and_other_modules_follow_the_same_rule():
    rnn = PhasedLSTM(3, 5, peephole=True, bidirectional=True)
    model = nn.Sequential(
        nn.Embedding(7, 3),
        nn.ModuleDict({"rnn": rnn}),
        nn.BatchNorm1d(10),
        nn.Linear(10, 2),
    )
    decays = decay_of(model, weight_decay=0.3)
    matrices = {f"1.rnn.weight_{kind}_l0{direction}" for kind in ("ih", "hh") for direction in ("", "_reverse")}
    assert {name for name, decay in decays.items() if decay} == {"0.weight", "3.weight", *matrices}
    assert set(decays.values()) == {0.0, 0.3}


def test_every_parameter_is_in_one_group_once():
    rnn = PhasedGRU(4, 4, learn_period=False)
    model = nn.ModuleList([rnn, rnn, nn.Linear(4, 4)])
    grouped = [id(value) for group in parameter_groups(model) for value in group["params"]]
    assert sorted(grouped) == sorted(id(value) for value in model.parameters())


def test_gates_computed_by_a_parametrisation_are_gates():
    rnn = weight_norm(PhasedLSTM(3, 5), "weight_hh_l0")
    nn.utils.parametrize.register_parametrization(rnn, "period_l0", Doubled())
    groups = parameter_groups(rnn, gate_lr=0.5)
    assert {tuple(value.shape) for value in groups[-1]["params"]} == {(5,)}
    assert len(groups[-1]["params"]) == 3
    assert groups[-1]["lr"] == 0.5


def test_without_phased_layers_there_are_no_gates():
    assert [len(group["params"]) for group in parameter_groups(nn.Linear(3, 2))] == [1, 1]
    assert [len(group["params"]) for group in parameter_groups(nn.Linear(3, 2, bias=False))] == [1]


@pytest.mark.parametrize("gradient, gate_lr, weight_decay", [(0.0, None, 0.5), (1.0, 3.0, 0.0)])
def test_a_step_shrinks_weights_alone_and_moves_gates_at_a_rate_of_their_own(gradient, gate_lr, weight_decay):
    rnn = PhasedLSTM(3, 5, learn_ratio_on=True)
    before = {name: value.detach().clone() for name, value in rnn.named_parameters()}
    optimizer = torch.optim.SGD(parameter_groups(rnn, weight_decay=weight_decay, gate_lr=gate_lr), lr=0.1)
    for value in rnn.parameters():
        value.grad = torch.full_like(value, gradient)
    optimizer.step()
    for name, value in rnn.named_parameters():
        rate = 0.1 if gate_lr is None or name.startswith(("weight", "bias")) else gate_lr
        decay = weight_decay if name.startswith("weight_") else 0.0
        torch.testing.assert_close(value.detach(), before[name] - rate * (gradient + decay * before[name]))


@pytest.mark.parametrize("name, value", [("weight_decay", -1.0), ("gate_lr", -0.1), ("weight_decay", float("nan"))])
def test_rates_below_zero_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be in \[0, inf\), got {value:g}"):
        parameter_groups(PhasedLSTM(3, 5), **{name: value})


def test_parameters_instead_of_a_module_are_refused():
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module, got generator\. Pass the model"):
        parameter_groups(PhasedLSTM(3, 5).parameters())
