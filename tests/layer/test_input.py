"""Input that is not finite: a layer on a CPU warns once, where it has reached the state, and names its place."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from layers import Layer, each_direction, each_layer
from phased import LogUniform, PhasedLSTM
from strategies import BACKENDS, clocks

NAN = float("nan")
WARNING = "input must be finite, got nan"


def layer(make: type = PhasedLSTM, **settings: object) -> Layer:
    return make(3, 20, **({"period": LogUniform(2, 40), "ratio_on": 0.3} | settings))


def broken(batch_first: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    x, time = torch.randn(30, 4, 3), clocks(30, 4)
    x[10, 1, 2] = NAN
    return (x.transpose(0, 1), time.T) if batch_first else (x, time)


@each_layer
@each_direction
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_nan_is_named_by_feature_step_and_sequence(make, bidirectional, backend, batch_first, training):
    rnn = layer(make, bidirectional=bidirectional, backend=backend, batch_first=batch_first, num_layers=2).train(training)
    with pytest.warns(UserWarning, match=rf"^{WARNING} for feature 2 at step 10 of sequence 1: units .* Leave such steps out"):
        rnn(*broken(batch_first))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = layer()

    def forward(self, x, time):
        return self.rnn(x, time)


@pytest.mark.parametrize("model", [layer, Model])
def test_a_layer_warns_once_at_the_users_call_and_another_one_for_itself(model):
    for rnn in (model(), model()):
        with pytest.warns(UserWarning, match=WARNING) as caught:
            rnn(*broken())
        assert [Path(each.filename) for each in caught] == [Path(__file__)]
        rnn(*broken())  # a second warning would be an error


def test_the_check_can_be_skipped():
    rnn = layer()
    rnn.check_input = False
    assert rnn(*broken())[0].isnan().any()


@pytest.mark.parametrize(
    "settings, lengths", [({}, [30, 10, 30, 30]), ({}, [30, 4, 0, 1]), ({"period": 1e6, "shift": 5e5}, None)]
)
def test_nan_in_padding_or_that_no_unit_sees_is_no_reason_to_warn(settings, lengths):
    assert layer(**settings)(*broken(), lengths=lengths)[0].isfinite().all()


def test_parameters_and_states_that_are_nan_are_not_taken_for_input():
    x, time = torch.randn(30, 4, 3), clocks(30, 4)
    rnn = layer()
    assert rnn(x, time, (torch.full((1, 4, 20), NAN), torch.zeros(1, 4, 20)))[0].isnan().any()
    with torch.no_grad():
        rnn.weight_hh_l0[3] = NAN
    assert rnn(x, time)[0].isnan().any()
    assert rnn.check_input


def test_unbatched_and_half_precision_input_is_checked():
    x, time = broken()
    with pytest.warns(UserWarning, match=f"{WARNING} for feature 2 at step 10 of sequence 0"):
        layer()(x[:, 1], time[:, 1])
    with pytest.warns(UserWarning, match=WARNING):
        layer(dtype=torch.bfloat16)(x.bfloat16(), time)


def test_where_values_cannot_be_read_nothing_is_checked():
    torch.compiler.reset()
    x, time = broken()
    rnn = layer()
    assert torch.compile(rnn, fullgraph=True, backend="eager")(x, time)[0].isnan().any()
    reference = layer(backend="reference")
    values = {name: value.detach() for name, value in reference.named_parameters()}
    outputs = vmap(lambda one: functional_call(reference, values, (one, time))[0])(x.unsqueeze(0))
    assert outputs.isnan().any()
    assert rnn.check_input
    assert reference.check_input


@pytest.mark.gpu
def test_on_a_gpu_nothing_is_read():
    x, time = (value.cuda() for value in broken())
    assert layer(device="cuda")(x, time)[0].isnan().any()
