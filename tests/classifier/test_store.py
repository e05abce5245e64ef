"""A classifier's folder: what is written is what is read, and every defect is an error that names the file."""

import json
import math

import numpy as np
import pytest
import safetensors.torch
import torch

from phased import PhasedGRU
from phased.classifier import About, BadModel, Classifier, Score
from phased.classifier.card import card
from phased.classifier.network import sizes_in
from phased.classifier.store import SHIPPED
from phased.model_folder import digest
from phased.parameters import in_force
from recordings import network, recording

ABOUT = About(
    command="phased run nmnist --seeds 1",
    data="Simulated recordings.",
    scores=(Score(0.97, 100, "N-MNIST, Test", False), Score(0.985, 10_000, "test set", True)),
    longest=340.0,
    date="2026-01-31",
)


@pytest.fixture
def folder(tmp_path):
    """The folder of a small classifier."""
    Classifier.of(network(), about=ABOUT).save(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    """Change the parameters of a folder, with a digest that fits."""
    path = folder / "model.safetensors"
    state = change(safetensors.torch.load_file(path))
    path.write_bytes(safetensors.torch.save(state))
    fields = json.loads((folder / "config.json").read_text())
    reconfigure(folder, sha256=digest(fields, path.read_bytes()))


def reconfigure(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 2, "gate": "square"}, {"cell": PhasedGRU}, {"peephole": True}, {"bias": False}, {"mean": True, "hidden": 5}],
)
def test_a_saved_classifier_answers_as_before(options, tmp_path):
    made = Classifier.of(network(**options), classes=list("abcdefghij"), about=ABOUT)
    made.save(tmp_path)
    loaded = Classifier.load(tmp_path)
    assert np.array_equal(loaded.classify(recording()).probabilities, made.classify(recording()).probabilities)
    assert loaded.config == made.config
    assert loaded.classes == tuple("abcdefghij")


def test_gates_that_training_moved_out_of_their_bounds_are_written_as_they_are_used(tmp_path):
    moved = network()
    with torch.no_grad():
        moved.rnn.ratio_on_l0.fill_(1.4)
        moved.rnn.period_l0[0] = -3.0
    with torch.no_grad():
        state, want = moved.state_dict(), in_force(moved.state_dict())
    assert want["rnn.ratio_on_l0"].max() == 1
    assert want["rnn.period_l0"].min() > 0
    for dtype in (torch.float32, torch.float16):  # of a state_dict from elsewhere
        assert in_force({"rnn.period_l0": torch.ones(2, dtype=dtype)})["rnn.period_l0"].tolist() == [1, 1]
    assert state["rnn.ratio_on_l0"].min() == 1.4  # the network itself is left alone
    made = Classifier.of(moved, about=ABOUT)
    made.save(tmp_path)
    assert np.array_equal(Classifier.load(tmp_path).classify(recording()).probabilities, made.classify(recording()).probabilities)


def test_loading_draws_no_random_numbers(folder):
    state = torch.random.get_rng_state()
    Classifier.load(folder)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_card_says_what_a_reader_needs_and_keeps_real_and_simulated_scores_apart(folder):
    text = (folder / "README.md").read_text()
    for expected in ("phased run nmnist --seeds 1", "Simulated recordings.", "34 x 34", "340 ms", "CC BY-SA 4.0", "2026-01-31"):
        assert expected in text
    real, simulated = text.partition("| Simulated from images")[::2]
    assert "| N-MNIST, Test | 100 | 97.00% |" in real
    assert "| test set | 10,000 | 98.50% |" in simulated
    assert max(map(len, text.splitlines())) <= 140


def test_a_missing_file_is_named(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadModel, match=r"has no file '.*model.safetensors'.*phased pack"):
        Classifier.load(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BadModel, match=r"there is no folder '.*nowhere' with a model"):
        Classifier.load(tmp_path / "nowhere")


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_parameters_cut_off_anywhere_are_an_error(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BadModel, match=r"model.safetensors' is cut off, damaged or no safetensors file"):
        Classifier.load(folder)


def test_a_changed_bit_is_an_error(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadModel, match=r"the SHA-256 of both files must be that in 'config.json'"):
        Classifier.load(folder)


@pytest.mark.parametrize("changes", [{"gate": "square"}, {"sensor": [17, 68]}, {"classes": list("9876543210")}, {"scores": []}])
def test_a_changed_configuration_that_fits_the_parameters_is_an_error(folder, changes):
    reconfigure(folder, **changes)
    with pytest.raises(BadModel, match=r"the SHA-256 of both files must be that in 'config.json'"):
        Classifier.load(folder)


def test_a_configuration_in_another_layout_is_the_same(folder):
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(sorted(fields.items()))))
    assert Classifier.load(folder).classes


def without(name):
    return lambda state: {key: value for key, value in state.items() if key != name}


def replaced(name, make):
    return lambda state: state | {name: make(state[name])}


def poked(value):
    def poke(tensor):
        tensor = tensor.clone()
        tensor.view(-1)[3] = value
        return tensor

    return poke


@pytest.mark.parametrize(
    "change, message",
    [
        (without("linear.bias"), "'linear.bias' is missing"),
        (lambda state: state | {"extra": torch.zeros(1)}, "'extra' is not one of them"),
        (
            replaced("rnn.weight_hh_l0", lambda w: w[:, 1:].contiguous()),
            r"'rnn.weight_hh_l0' must be .* \(48, 12\), got .*\(48, 11\)",
        ),
        (replaced("linear.weight", torch.Tensor.double), "'linear.weight' must be torch.float32.*got torch.float64"),
        (replaced("encoder.pixel.weight", poked(math.nan)), "'encoder.pixel.weight' must be finite"),
        (replaced("rnn.period_l0", poked(-1.0)), "'rnn.period_l0' is out of range: period must be positive"),
        (replaced("rnn.ratio_on_l0", poked(1.5)), r"'rnn.ratio_on_l0' is out of range: ratio_on must be in \(0, 1\]"),
    ],
)
def test_parameters_that_do_not_fit_are_named(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(BadModel, match=f"does not have the parameters of this model: {message}"):
        Classifier.load(folder)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"format": "another"}, "'format' must be 'phased event classifier'"),
        ({"version": 2}, "'version' must be 1, got 2. Upgrade phased"),
        ({"version": "1"}, "'version' must be of type int, got str"),
        ({"time_unit": "s"}, "'time_unit' must be 'ms', got 's'"),
        ({"units": 10**9}, "'units' must be from 1 to 65536, got 1000000000"),
        ({"units": True}, "'units' must be of type int, got bool"),
        ({"hidden": -1}, "'hidden' must be from 1 to 65536, got -1"),
        ({"hidden": 1.5}, "'hidden' must be of type int, got float"),
        ({"sensor": [34]}, "'sensor' must be width and height"),
        ({"cell": "rnn"}, "'cell' must be one of"),
        ({"gate": "round"}, "'gate' must be one of"),
        ({"classes": ["0"] * 10}, "'classes' must be at least two different names"),
        ({"classes": [0, 1]}, "'classes' must be of type str"),
        ({"scores": [{"accuracy": 2}]}, "it must have a 'recordings'"),
        ({"longest": -1}, "'longest' must be a number from 0"),
    ],
)
def test_a_configuration_that_is_none_is_named_with_the_field(folder, changes, message):
    reconfigure(folder, **changes)
    with pytest.raises(BadModel, match=f"config.json' is not the configuration of a model: .*{message}"):
        Classifier.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\udcff"])
def test_a_configuration_that_is_not_json_is_an_error(folder, text):
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadModel, match=r"config.json' is not the configuration"):
        Classifier.load(folder)


def test_a_configuration_of_another_network_does_not_fit_the_parameters(folder):
    reconfigure(folder, units=13)
    with pytest.raises(BadModel, match=r"'rnn.weight_ih_l0' must be torch.float32 of shape \(52, 7\), got .* \(48, 7\)"):
        Classifier.load(folder)


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 2}, {"cell": PhasedGRU}, {"peephole": True}, {"bias": False, "outputs": 3}, {"mean": True, "hidden": 5}],
)
def test_sizes_follow_from_a_state_dict(options):
    model = network(**options)
    sizes = sizes_in(model.state_dict())
    assert sizes == Classifier.of(model).config.sizes
    assert sizes.shapes() == {name: tuple(value.shape) for name, value in model.state_dict().items()}


def test_a_state_dict_of_another_network_is_refused():
    with pytest.raises(ValueError, match=r"got one without 'encoder.pixel.weight'"):
        sizes_in(torch.nn.Linear(3, 4).state_dict())
    with pytest.raises(ValueError, match=r"must have 34 x 34 pixels, got 200 in all"):
        sizes_in(network(sensor=(20, 10)).state_dict())


def test_the_model_that_comes_with_the_package_is_whole_and_small():
    classifier = Classifier.load()
    assert classifier.classes == tuple("0123456789")
    assert (SHIPPED / "model.safetensors").stat().st_size < 2e6
    assert (SHIPPED / "README.md").read_text() == card(classifier.config)
    assert any(not score.simulated for score in classifier.config.about.scores)
