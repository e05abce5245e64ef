"""Folders of models of every kind: what is written is what is read, and every defect is an error that names the file."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.torch
import torch

from damaged import reconfigure, resign
from patients import X, follow, quick
from phased import classifier
from phased.classifier import BadModel, Classifier, Score
from phased.classifier import folder as classifiers
from phased.estimator import PhasedClassifier, PhasedRegressor
from phased.parameters import clamped_gates
from phased_lab.lipreader import LipReader
from phased_lab.lipreader import folder as readers
from recordings import network, recording
from speaking import made_up, untrained

ABOUT = classifier.About(
    command="phased run nmnist --seeds 1",
    data="Simulated recordings.",
    scores=(Score(0.97, 100, "N-MNIST, Test", False), Score(0.985, 10_000, "test set", True)),
    longest=340.0,
    date="2026-01-31",
)


class Kind(NamedTuple):
    """A kind of model: how one is made and loaded, what it answers, the texts of its card, and the command of its cure."""

    make: Callable[[], Any]
    load: Callable[..., Any]
    answer: Callable[[Any], np.ndarray]
    texts: tuple[str, ...]
    command: str = "phased pack"


def estimator(make: Callable[[], Any], load: Callable[..., Any]) -> Kind:
    """One whose answers are those of a batch and of events that come one by one."""

    def answer(model: Any) -> np.ndarray:
        batch = getattr(model, "predict_proba", model.predict)(X)
        return np.concatenate([np.ravel(batch), np.ravel(follow(model, X, 5))])

    return Kind(make, load, answer, ("HR, GCS, Temp", "Age, ICU"), "phased fit")


KINDS = {
    "classifier": Kind(
        lambda: Classifier.of(network(), about=ABOUT),
        Classifier.load,
        lambda model: model.classify(recording()).probabilities,
        ("phased run nmnist --seeds 1", "Simulated recordings.", "34 x 34", "340 ms", "CC BY-SA 4.0", "2026-01-31"),
    ),
    "lip reader": Kind(
        untrained,
        LipReader.load,
        lambda model: model.follow(made_up(5)).outputs,
        (
            *("phased run lipreading", "Made-up clips.", "| words, video alone | 50.0 % |", "0.1.0"),
            "On 2 clips that were not used in training; `tested` in `config.json` has their names:",
        ),
    ),
    "estimator": estimator(quick, PhasedClassifier.load),
    "estimator of names": estimator(lambda: quick(y=("a", "b", "c") * 20), PhasedClassifier.load),
    "estimator of steps": estimator(lambda: quick(PhasedRegressor, y=tuple(X.time * 10.0)), PhasedRegressor.load),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """One of the kinds."""
    return KINDS[request.param]


@cache
def model_and_files(kind: Kind) -> tuple[Any, dict[str, bytes]]:
    """A small model, and the content of its files by their names."""
    model = kind.make()
    with TemporaryDirectory() as folder:
        model.save(folder)
        return model, {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def saved(kind: Kind, folder: Path) -> Path:
    """The folder of a small model."""
    for name, data in model_and_files(kind)[1].items():
        (folder / name).write_bytes(data)
    return folder


def test_a_saved_model_answers_as_before_and_is_saved_the_same_again(kind, tmp_path):
    made, files = model_and_files(kind)
    assert sorted(files) == ["README.md", "config.json", "model.safetensors"]
    loaded = kind.load(saved(kind, tmp_path))
    assert np.array_equal(kind.answer(loaded), kind.answer(made))
    loaded.save(tmp_path / "again")
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == files
    reconfigure(tmp_path, sort_keys=True)
    assert np.array_equal(kind.answer(kind.load(tmp_path)), kind.answer(made)), "in another layout"


def test_gates_that_training_moved_out_of_their_bounds_are_written_as_they_are_used(tmp_path):
    model = network()
    with torch.no_grad():
        model.rnn.ratio_on_l0.fill_(1.4)
        model.rnn.period_l0[0] = -3.0
    made = Classifier.of(model)
    assert model.rnn.ratio_on_l0.min() == 1.4  # the network itself is left alone
    made.save(tmp_path)
    answer = KINDS["classifier"].answer
    assert np.array_equal(answer(Classifier.load(tmp_path)), answer(made))
    state = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert state["rnn.ratio_on_l0"].max() == 1
    assert state["rnn.period_l0"].min() > 0
    for dtype in (torch.float32, torch.float16):  # of a state_dict from elsewhere
        assert clamped_gates({"rnn.period_l0": torch.ones(2, dtype=dtype)})["rnn.period_l0"].tolist() == [1, 1]


def test_a_lip_reader_stores_weights_in_half_precision_and_gates_as_they_are(tmp_path):
    untrained().save(tmp_path)
    stored, state = safetensors.torch.load_file(tmp_path / "model.safetensors"), untrained().network.state_dict()
    for name, dtype in (("fusion.merged.weight_hh_l0", torch.float16), ("fusion.merged.period_l0", torch.float64)):
        assert stored[name].dtype == dtype
        assert torch.equal(stored[name].to(state[name].dtype), state[name])


def test_the_card_says_what_a_reader_needs(kind, tmp_path):
    text = (saved(kind, tmp_path) / "README.md").read_text()
    assert [part for part in kind.texts if part not in text] == []
    assert max(map(len, text.splitlines())) <= 140


def test_the_card_of_a_classifier_keeps_real_and_simulated_scores_apart(tmp_path):
    saved(KINDS["classifier"], tmp_path)
    real, simulated = (tmp_path / "README.md").read_text().partition("| Simulated from images")[::2]
    assert "| N-MNIST, Test | 100 | 97.00% |" in real
    assert "| test set | 10,000 | 98.50% |" in simulated


def test_a_missing_folder_is_named(kind, tmp_path):
    with pytest.raises(BadModel, match=r"there is no folder '.*nowhere' with a model"):
        kind.load(tmp_path / "nowhere")


def flipped(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


CHANGED = "the SHA-256 of both files must be that in 'config.json'"
NO_CONFIG = "config.json' is not the configuration of a model"
FILES: list[tuple[str, Callable[[bytes], bytes | None], str]] = [  # the file, what becomes of it, the error
    ("model.safetensors", lambda data: None, r"has no file '.*model.safetensors'.*{command}"),
    *(
        ("model.safetensors", lambda data, kept=kept: data[:kept], r"model.safetensors' is cut off, damaged or no safetensors")
        for kept in (0, 4, 100, -1)
    ),
    ("model.safetensors", flipped, CHANGED),
    *(("config.json", lambda data, text=text: text, NO_CONFIG) for text in (b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff")),
]


@pytest.mark.parametrize("name, change, message", FILES)
def test_a_missing_or_damaged_file_is_named(kind, tmp_path, name, change, message):
    path = saved(kind, tmp_path) / name
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(BadModel, match=message.format(command=kind.command)):
        kind.load(tmp_path)


ALL: list[tuple[dict[str, Any], str]] = [
    ({"format": "another"}, f"{NO_CONFIG}: its 'format' must be 'phased "),
    ({"version": 6}, f"{NO_CONFIG}: .*'version' must be [15], got 6. Upgrade phased"),
    ({"version": "1"}, f"{NO_CONFIG}: .*'version' must be of type int, got str"),
]
CONFIGURATIONS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "classifier": [
        ({"gate": "square"}, CHANGED),
        ({"classes": list("9876543210")}, CHANGED),
        ({"time_unit": "s"}, f"{NO_CONFIG}: .*'time_unit' must be 'ms', got 's'"),
        ({"units": 10**9}, f"{NO_CONFIG}: .*'units' must be from 1 to 65536, got 1000000000"),
        ({"units": 13}, r"'rnn.weight_ih_l0' must be torch.float32 of shape \(52, 7\), got .* \(48, 7\)"),
        ({"hidden": -1}, f"{NO_CONFIG}: .*'hidden' must be from 0 to 65536, got -1"),
        ({"sensor": [34]}, f"{NO_CONFIG}: .*it must have a 'height', and has none"),
        ({"cell": "rnn"}, f"{NO_CONFIG}: .*'cell' must be 'lstm' or 'gru', got 'rnn'"),
        ({"classes": ["0"] * 10}, f"{NO_CONFIG}: .*'classes' must be at least two different names"),
        ({"scores": [{"accuracy": 2}]}, f"{NO_CONFIG}: its 'accuracy' must be from 0 to 1, got 2"),
        ({"longest": -1}, f"{NO_CONFIG}: .*'longest' must be from 0 to"),
    ],
    "estimator": [
        ({"unit": "min"}, CHANGED),
        ({"version": 1}, f"{NO_CONFIG}: .*'version' must be 5, got 1. Fit the model again"),
        ({"kind": "regressor"}, f"{NO_CONFIG}: .*'kind' must be 'classifier', got 'regressor'"),
        ({"classes": {"dtype": "<i8", "values": [1]}}, f"{NO_CONFIG}: .*at least 2 classes"),
        ({"classes": {"dtype": "<U20000", "values": ["a", "b"]}}, f"{NO_CONFIG}: .*'classes' must be numbers or words"),
    ],
    "lip reader": [
        ({"units": [6, 7, 9]}, r"of shape \(36, 13\), got .* \(32, 13\)"),
        ({"units": [6, 7, 65_536]}, "of shape"),  # 70 GB
        ({"rate": 50}, f"{NO_CONFIG}: .*'rate' must be 100 or 25, got 50"),
        ({"silence": -9.0}, CHANGED),
        ({"begin": [300.0, 0.0]}, f"{NO_CONFIG}: .*standard deviation must be positive"),
        ({"deviation": [0.0] * 39}, f"{NO_CONFIG}: .*must be 39 numbers, and deviations positive"),
        ({"durations": []}, f"{NO_CONFIG}: .*'durations' must be of 6 words, got 0"),
    ],
}


@pytest.mark.parametrize("name, changes, message", [(name, *row) for name, rows in CONFIGURATIONS.items() for row in ALL + rows])
def test_a_changed_configuration_is_refused(name, changes, message, tmp_path):
    reconfigure(saved(KINDS[name], tmp_path), **changes)
    with pytest.raises(BadModel, match=message):
        KINDS[name].load(tmp_path)


def replaced(
    name: str, make: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda state: state | {name: make(state[name])}


def poked(value):
    return lambda tensor: tensor.flatten().index_fill(0, torch.tensor([3]), value).view(tensor.shape)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda state: {key: value for key, value in state.items() if key != "linear.bias"}, "'linear.bias' is missing"),
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
def test_parameters_that_do_not_fit_are_named_even_if_the_digest_fits(change, message, tmp_path):
    resign(saved(KINDS["classifier"], tmp_path), change)
    with pytest.raises(BadModel, match=f"does not have the parameters of this model: {message}"):
        Classifier.load(tmp_path)


@pytest.mark.parametrize("name, store", [("classifier", classifiers), ("lip reader", readers)])
def test_a_model_that_comes_with_the_package_is_small_and_has_its_card(name, store):
    model = KINDS[name].load()
    assert (store.SHIPPED / "model.safetensors").stat().st_size < 3e6
    assert (store.SHIPPED / "README.md").read_text() == store.card(model.config)
    assert np.isfinite(KINDS[name].answer(model)).all()


def test_the_scores_of_the_models_that_come_with_the_package():
    assert Classifier.load().classes == tuple("0123456789")
    assert any(not score.simulated for score in Classifier.load().config.about.scores)
    assert LipReader.load().config.about.scores["words, video alone, times of words known"] > 0.85
