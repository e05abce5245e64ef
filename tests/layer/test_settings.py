"""What a state_dict knows of a layer's settings: other settings are named before anything is loaded."""

import copy
import io

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from layers import each_layer
from phased import PhasedLSTM
from phased.init import LogUniform
from strategies import clocks

SETTINGS = {"gate": ("square", "triangle"), "batch_first": (True, False)}
each_setting = pytest.mark.parametrize("name", SETTINGS)
X, T = torch.randn(4, 4, 3), clocks(4, 4)


def through_a_file(state: object) -> object:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def pair(make: type, name: str) -> tuple[nn.Module, nn.Module]:
    return tuple(make(3, 5, period=LogUniform(2, 40), **{name: value}) for value in SETTINGS[name])


@each_layer
@each_setting
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("assign", [True, False])
def test_a_layer_of_another_setting_is_refused_and_stays_as_it_was(make, name, strict, assign):
    saved, other = pair(make, name)
    before = copy.deepcopy(other.state_dict())
    theirs, mine = SETTINGS[name]
    message = (
        rf"{name} must be {theirs!r}, as in the layer that was saved, got {mine!r}\. Build the layer with {name}={theirs!r}, or"
    )
    with pytest.raises(RuntimeError, match=message):
        other.load_state_dict(through_a_file(saved.state_dict()), strict=strict, assign=assign)
    assert all(torch.equal(value, before[key]) for key, value in other.state_dict().items())


def test_inside_a_model_every_other_setting_is_named_with_the_layer():
    saved = PhasedLSTM(3, 5, **{name: values[0] for name, values in SETTINGS.items()})
    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(nn.Identity(), PhasedLSTM(3, 5)).load_state_dict(nn.Sequential(nn.Identity(), saved).state_dict())
    assert all(f"1.{name} must be " in str(caught.value) for name in SETTINGS)


@each_layer
@each_setting
def test_parameters_without_their_settings_load_anywhere(make, name):
    """A plain dict has no settings: those of earlier versions, averaged ones, safetensors, and dict(state_dict)."""
    saved, other = pair(make, name)
    for state in (dict(saved.state_dict()), load(save(saved.state_dict()))):
        assert other.load_state_dict(state) == nn.modules.module._IncompatibleKeys([], [])
        assert all(torch.equal(value, other.state_dict()[key]) for key, value in saved.state_dict().items())


@each_layer
@pytest.mark.parametrize("wrap", [copy.deepcopy, through_a_file], ids=["a copy", "a file"])
@pytest.mark.parametrize("assign", [True, False])
def test_the_same_settings_load_strictly_whatever_the_leak(make, wrap, assign):
    saved, other = (make(3, 5, gate="square", leak=leak, batch_first=True) for leak in (0.1, 0.2))
    assert list(saved.state_dict()) == [name for name, _ in saved.named_parameters()]
    assert all(type(value) is torch.Tensor for value in saved.state_dict().values())
    other.load_state_dict(wrap(saved.state_dict()), assign=assign)
    assert torch.equal(other.eval()(X, T.T)[0], saved.eval()(X, T.T)[0])


def test_weights_load_into_torchs_layer_and_from_it():
    theirs, ours = nn.LSTM(3, 5), PhasedLSTM(3, 5)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    assert torch.equal(ours.weight_hh_l0, theirs.weight_hh_l0)
    fresh = nn.LSTM(3, 5)
    fresh.load_state_dict(ours.state_dict(), strict=False)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), theirs.parameters(), strict=True))


def test_averaged_models_and_checkpoints_of_a_module_work():
    rnn = PhasedLSTM(3, 5, gate="square")
    average = torch.optim.swa_utils.AveragedModel(rnn)
    average.update_parameters(rnn)
    average.load_state_dict(through_a_file(average.state_dict()))
    assert torch.equal(average.eval()(X, T)[0], rnn.eval()(X, T)[0])


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("name", ["period_l0", "shift_l0", "ratio_on_l0"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_time_parameter_that_is_not_finite_is_not_loaded_and_nothing_else_is(name, bad, assign):
    state, model = PhasedLSTM(3, 5).state_dict(), nn.Sequential(PhasedLSTM(3, 5))
    state[name][2] = bad
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match=rf"0\.{name} must be finite, got {bad} for unit 2"):
        model.load_state_dict({f"0.{key}": value for key, value in state.items()}, assign=assign)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
