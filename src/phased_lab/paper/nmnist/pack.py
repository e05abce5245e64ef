"""A classifier of `phased classify` from a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from phased.classifier import About, Classifier, Score
from phased.classifier.network import Sizes
from phased.data.recording import NMNIST
from phased.model_folder import restored
from phased_lab.runs.record import Record
from phased_lab.runs.taught import student_of

LONGEST = 340.0  # ms: N-MNIST's recordings end before
TRAINED_ON = {
    "simulated": "Recordings simulated from {images:,} of MNIST's training images by phased's event camera in software.",
    "real": "The training recordings of N-MNIST (Orchard et al. 2015, CC BY-SA 4.0).",
    "both": "Recordings simulated from {images:,} of MNIST's training images by phased's event camera in software, and real "
    "training recordings of N-MNIST (Orchard et al. 2015, CC BY-SA 4.0).",
}
"""Training data of each condition."""

TESTED_ON = {
    "simulated": "MNIST's test images",
    "real": "test recordings of N-MNIST",
    "all real": "training and test recordings of N-MNIST; simulated recordings of the training digits were trained on",
}
"""Test data of each further test."""


def classifier_of(record: Record, state: Mapping[str, Tensor], folder: str = "") -> Classifier:
    """The classifier of a run, with its scores. It needs no folder of recordings."""
    if folder:
        raise ValueError("--data is for networks that need the data of their run again, and this one does not. Leave it out.")
    return Classifier.of(network(state), about=about(record))


def network(state: Mapping[str, Tensor]) -> Any:
    """The network of a state_dict; its sizes follow from the shapes, the gate's shape from the layer's own settings."""
    state = student_of(state)
    if not {"encoder.pixel.weight", "rnn.weight_hh_l0", "linear.weight"} <= state.keys():
        raise ValueError("the network must be a Readout with an EventEmbedding, got another. Name a run of a Phased LSTM.")
    settings = getattr(state, "_metadata", {}).get("rnn", {}).get("settings", {})
    embedding, units = state["encoder.pixel.weight"].shape[1], state["rnn.weight_hh_l0"].shape[1]
    layers = sum(name.startswith("rnn.weight_hh_l") for name in state)
    width = state["linear.weight"].shape[1]
    hidden, read = state["hidden.weight"].shape if "hidden.weight" in state else (0, width)
    gate = settings.get("gate", "triangle")
    sizes = Sizes(NMNIST, embedding, "lstm", units, layers, gate, mean=read == 2 * units, hidden=hidden)
    return restored(lambda: sizes.build(len(state["linear.bias"])), state)


def about(record: Record) -> About:
    """How the run was trained and tested."""
    images = record.settings.get("task", {}).get("images", [0])[0]
    data = TRAINED_ON.get(record.condition, record.condition).format(images=images)
    scores = []
    for name, score in record.evaluations.items():
        recordings, keep = tested(name, record.condition)
        words = f"{TESTED_ON.get(recordings, recordings)}, {keep}"
        scores.append(Score(score.test, score.sequences, words, simulated=recordings == "simulated"))
    versions = {str(package): str(version) for package, version in record.versions.items()}
    return About(command=record.command, data=data, scores=tuple(scores), longest=LONGEST, versions=versions, date=record.date)


def tested(name: str, condition: str) -> tuple[str, str]:
    """The recordings of a test, and the events kept: "real, rho 0.75" is on real recordings, "rho 0.75" on the run's own."""
    recordings, _, rho = name.rpartition("rho ")
    own = "real" if condition == "real" else "simulated"
    events = "all events" if rho == "1" else f"each event kept with probability {rho}"
    return recordings.rstrip(", ") or own, events
