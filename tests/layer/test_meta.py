"""Layers without values: made on the meta device or with fake tensors, they have shapes, and take values later."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import skip_init

from layers import Layer, each_layer, flat
from phased import PhasedGRU, PhasedLSTM
from phased.init import Constant, LogUniform
from strategies import BACKENDS, clocks


def on_meta(make: type, *args: object, **settings: object) -> Layer:
    with torch.device("meta"):
        return make(*args, **settings)


@pytest.mark.parametrize("period", [7.0, Constant(7.0), LogUniform(1, 9), torch.full((5,), 7.0), lambda n: torch.full((n,), 7.0)])
def test_every_way_to_set_a_gate_works_on_meta(period):
    assert on_meta(PhasedLSTM, 3, 5, period=period).period_l0.is_meta


def test_a_wrong_number_is_refused_on_meta_too():
    with pytest.raises(ValueError, match="period must be positive, got -1"):
        on_meta(PhasedLSTM, 3, 5, period=-1.0)


@each_layer
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "cpu"])
def test_a_layer_on_meta_gives_meta_outputs_of_the_right_shape(make, training, backend):
    """The leak acts in training alone."""
    rnn = on_meta(make, 3, 5, 2, bidirectional=True, leak=0.01, backend=backend).train(training)
    x, time = torch.empty(3, 4, 3, device="meta"), torch.empty(3, 4, device="meta")
    for lengths in (None, torch.empty(4, dtype=torch.int64, device="meta"), [3, 1, 0, 3]):
        output, *final = flat(rnn(x, time, lengths=lengths))
        assert all(value.is_meta for value in (output, *final))
        assert [output.shape, *{state.shape for state in final}] == [(3, 4, 10), (4, 4, 5)]
    output.sum().backward()
    assert rnn.weight_hh_l1.grad.shape == (rnn.cell.gates * 5, 5)


@each_layer
def test_fake_tensors_make_a_layer_and_pass_through_it(make):
    with FakeTensorMode():
        rnn = make(3, 5, period=LogUniform(2, 40))
        assert "period=?" in repr(rnn)
        output, *final = flat(rnn(torch.randn(9, 4, 3), torch.zeros(9, 4), lengths=torch.tensor([9, 3, 0, 9])))
    assert type(output).__name__ == "FakeTensor"
    assert [output.shape, *{state.shape for state in final}] == [(9, 4, 5), (1, 4, 5)]


@each_layer
@pytest.mark.parametrize("made", [lambda *args, **settings: on_meta(*args, **settings).to_empty(device="cpu"), skip_init])
def test_a_layer_from_meta_receives_the_values_of_one_that_was_made_at_once(make, made):
    """The laws draw on the CPU, so a seed means the same units whether or not the layer was on meta before."""
    settings = {"period": LogUniform(2, 40), "num_layers": 2}
    later = made(make, 3, 5, **settings)
    torch.manual_seed(7)
    later.reset_parameters()
    torch.manual_seed(7)
    at_once = make(3, 5, **settings)
    for (name, got), want in zip(later.named_parameters(), at_once.parameters(), strict=True):
        assert torch.equal(got, want), name
        assert (got.dtype, got.requires_grad) == (want.dtype, want.requires_grad)


def test_a_seed_means_the_units_it_always_meant():
    torch.manual_seed(7)
    rnn = PhasedLSTM(2, 3)
    assert rnn.period_l0.tolist() == pytest.approx([10.98908106689084, 10.681022495825406, 202.44430407041486])
    assert rnn.shift_l0.tolist() == pytest.approx([7.216402399423063, 9.853556926824938, 169.9611793317513])
    assert rnn.weight_ih_l0[0].tolist() == pytest.approx([-0.2461371123790741, -0.33911314606666565])


def test_a_layer_on_the_cpu_ignores_torchs_default_device():
    x, time = torch.randn(9, 4, 3), clocks(9, 4)
    with torch.device("meta"):
        assert LogUniform(1, 2)(3).device.type == "cpu"
        assert Constant(1.0)(3).device.type == "cpu"
        rnn = PhasedGRU(3, 5, device="cpu", period=LogUniform(2, 40), backend="reference").eval()
        output, _ = rnn(x, time, lengths=[9, 3, 0, 9])
    assert torch.equal(output, rnn(x, time, lengths=[9, 3, 0, 9])[0])


def test_a_layer_without_values_names_the_way_to_get_them():
    with pytest.raises(ValueError, match=r"layer's device, meta, where it has no values, got cpu\. Call layer\.to_empty"):
        on_meta(PhasedLSTM, 3, 5)(torch.randn(9, 4, 3), clocks(9, 4))
