"""A layer in a file: it comes back with its settings and computes the same, and a file that is not its own is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

from damaged import damaged
from layers import Layer, assert_equal, each_direction, each_layer
from phased import LogUniform, PhasedGRU, PhasedLSTM
from phased.parameters import SETTINGS
from phased.saving import ENTRY, BadLayer
from strategies import clocks

X, T = torch.randn(20, 4, 3), clocks(20, 4)
SETTING = {
    "input_size": 7,
    "hidden_size": 9,
    "num_layers": 2,
    "bias": False,
    "batch_first": True,
    "dropout": 0.25,
    "bidirectional": True,
    "leak": 0.125,
    "peephole": True,
    "gate": "square",
}


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "layer.safetensors"


def again(rnn: Layer, file: Path, **options: Any) -> Layer:
    rnn.save(file)
    return type(rnn).load(file, **options)


def edited(file: Path, **changes: Any) -> None:
    """Other settings in the file, and everything else as it was."""
    with safe_open(file, "pt") as stored:
        about = json.loads(stored.metadata()[ENTRY]) | changes
    save_file(load_file(file), file, {ENTRY: json.dumps(about)})


@each_layer
@each_direction
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_loaded_layer_computes_bit_for_bit_what_the_saved_one_does(make, bidirectional, training, dtype, file):
    rnn = make(3, 5, 2, bidirectional=bidirectional, period=LogUniform(2, 40), gate="square", leak=0.25, dtype=dtype).train(
        training
    )
    other = again(rnn, file)
    assert (other.dtype, other.training) == (dtype, training)
    assert_equal(rnn(X.to(dtype), T), other(X.to(dtype), T))


@pytest.mark.parametrize("name", SETTING)
def test_every_setting_comes_back(name, file):
    sizes = {"input_size": 3, "hidden_size": 5} | {name: SETTING[name]}
    rnn = again(PhasedLSTM(**sizes), file)
    assert getattr(rnn, name) == SETTING[name] != getattr(PhasedLSTM(3, 5), name)
    assert set(SETTING) == set(SETTINGS)


@pytest.mark.parametrize("frozen", [{"period_l0"}, {"shift_l1", "weight_hh_l0"}, set()])
def test_leak_and_what_is_learned_come_back_as_they_are_now(frozen, file):
    rnn = PhasedLSTM(3, 5, 2, learn_ratio_on=True, leak=0.5)
    rnn.leak = 0
    for name in frozen:
        rnn.get_parameter(name).requires_grad_(False)
    other = again(rnn, file)
    assert other.leak == 0.0
    assert {name for name, value in other.named_parameters() if not value.requires_grad} == frozen


def test_gates_come_back_as_the_optimiser_left_them_and_start_there_when_weights_are_drawn_anew(file):
    rnn = PhasedLSTM(3, 5, 12, period=LogUniform(1, 1e6))
    with torch.no_grad():
        rnn.period_l0[1], rnn.ratio_on_l0[2], rnn.ratio_on_l0[3] = -3.0, 7.0, -0.5
    before = torch.get_rng_state()
    other = again(rnn, file)
    assert torch.equal(torch.get_rng_state(), before)  # no random number is drawn
    assert all(torch.equal(value, rnn.state_dict()[name]) for name, value in other.state_dict().items())
    other.reset_parameters()
    for got, want in zip(other.gates(), rnn.gates(), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(got.parameters(), want.parameters(), strict=True))
    assert not torch.equal(other.weight_ih_l0, rnn.weight_ih_l0)


def test_layers_that_share_weights_and_weights_that_are_views_are_saved(file):
    rnn = PhasedLSTM(5, 5, 2)
    rnn.weight_ih_l1 = rnn.weight_ih_l0
    rnn.bias_ih_l0 = nn.Parameter(torch.randn(40)[::2])
    other = again(rnn, file)
    assert torch.equal(other.weight_ih_l1, rnn.weight_ih_l0)
    assert torch.equal(other.bias_ih_l0, rnn.bias_ih_l0)


def test_the_backend_and_the_device_are_those_of_the_call(file):
    rnn = PhasedLSTM(3, 5, backend="reference")
    assert again(rnn, file).backend == "auto"
    assert again(rnn, file, backend="eager", device="meta").backend == "eager"
    with torch.device("meta"):
        assert again(PhasedLSTM(3, 5, device="cpu"), file).device == torch.device("meta")
    with pytest.raises(ValueError, match="backend must be one of"):
        PhasedLSTM.load(file, backend="fast")


def test_the_parameters_are_those_of_a_plain_safetensors_file(file):
    rnn = PhasedLSTM(3, 5)
    rnn.save(file)
    fresh = PhasedLSTM(3, 5)
    fresh.load_state_dict(load_file(file))
    assert all(torch.equal(value, rnn.state_dict()[name]) for name, value in fresh.state_dict().items())


class Own(PhasedLSTM):
    pass


@pytest.mark.parametrize("make, other", [(PhasedLSTM, PhasedGRU), (PhasedGRU, PhasedLSTM), (PhasedLSTM, Own), (Own, PhasedLSTM)])
def test_a_class_loads_its_own_files_alone(make, other, file):
    assert type(again(other(3, 5), file)) is other
    with pytest.raises(BadLayer, match=rf"must be a {make.__name__}, got a {other.__name__}\. Call {other.__name__}\.load"):
        make.load(file)


OTHER_SHA = "must have the SHA-256 that it was saved with, and has another"
EDITED = [
    *((("version", version), rf"must be of version 1 of the format, got {version!r}\. Save") for version in (0, None, "1")),
    (("version", 2), r"must be of version 1 of the format, got 2\. Upgrade phased"),
    *(((name, None), OTHER_SHA) for name in (*SETTING, "training", "frozen", "sha256", "class")),
]


@pytest.mark.parametrize("change, message", EDITED, ids=str)
def test_another_version_and_an_edited_or_missing_setting_are_refused(change, message, file):
    PhasedLSTM(3, 5).save(file)
    edited(file, **dict([change]))
    with pytest.raises(BadLayer, match=message):
        PhasedLSTM.load(file)


def test_other_safetensors_files_are_refused(file):
    file.write_bytes(save(PhasedLSTM(3, 5).state_dict()))
    with pytest.raises(BadLayer, match="must be a layer that its `save` has written, got a file of another kind"):
        PhasedLSTM.load(file)


CONTENT: list[bytes] = []


@given(st.data())
def test_a_damaged_file_is_a_clear_error_or_the_layer_that_was_saved(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    if not CONTENT:
        torch.manual_seed(0)
        PhasedGRU(1, 2).save(path)
        CONTENT.append(path.read_bytes())
    path.write_bytes(data.draw(damaged(CONTENT[0])))
    try:
        rnn = PhasedGRU.load(path)
    except BadLayer:
        return
    rnn.save(path)
    assert path.read_bytes() == CONTENT[0]


def test_a_file_that_cannot_be_read_or_written_is_an_error_of_the_operating_system(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot read the layer: .* Name another file, .*: '.*none'"):
        PhasedLSTM.load(tmp_path / "none")
    with pytest.raises(OSError, match="cannot read the layer"):
        PhasedLSTM.load(tmp_path)
    with pytest.raises(OSError, match="cannot write"):
        PhasedLSTM(3, 5).save(tmp_path / "none" / "layer")


ALONE = "must have the parameters of its class alone; "


@pytest.mark.parametrize(
    "rnn, message",
    [
        (weight_norm(PhasedLSTM(3, 5), "weight_hh_l0"), f"{ALONE}'parametrizations.*Undo"),
        (prune.l1_unstructured(PhasedLSTM(3, 5), "weight_hh_l0", 0.5), f"{ALONE}'weight_hh_l0.*Undo"),
        (PhasedLSTM(3, 5, device="meta"), "must have values, got parameters on the meta device"),
    ],
    ids=["norm", "pruned", "meta"],
)
def test_a_layer_with_other_parameters_or_without_values_is_not_saved(rnn, message, file):
    with pytest.raises(ValueError, match=message):
        rnn.save(file)
    assert not file.exists()


@pytest.mark.gpu
def test_a_layer_on_a_gpu_is_saved_and_loaded_there_or_on_the_cpu(file):
    rnn = PhasedLSTM(3, 5, device="cuda").eval()
    there = again(rnn, file, device="cuda")
    assert torch.equal(there(X.cuda(), T.cuda())[0], rnn(X.cuda(), T.cuda())[0])
    assert PhasedLSTM.load(file).device == torch.device("cpu")
