"""`phased pack`: makes a model for `phased classify` or `phased lipread` from the checkpoint of a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from phased.classifier import About, Classifier, Score
from phased.classifier.network import sizes_in
from phased.cli.classify import Options, classify
from phased.experiments.folder import read
from phased.experiments.record import Record
from phased.learn.store import CHECKPOINT, load_checkpoint

PACKED = ("nmnist", "lipreading")  # experiments whose networks can be packed
LONGEST = 340.0  # ms: N-MNIST's recordings end before
TRAINED_ON = {
    "simulated": "Recordings simulated from {images:,} of MNIST's training images by phased's event camera in software.",
    "real": "The training recordings of N-MNIST (Orchard et al. 2015, CC BY-SA 4.0).",
    "both": "Recordings simulated from {images:,} of MNIST's training images by phased's event camera in software, and real "
    "training recordings of N-MNIST (Orchard et al. 2015, CC BY-SA 4.0).",
}
"""What the conditions of the experiment nmnist mean."""

TESTED_ON = {
    "simulated": "MNIST's test images",
    "real": "test recordings of N-MNIST",
    "all real": "training and test recordings of N-MNIST; simulated recordings of the training digits were trained on",
}
"""What the names of its tests mean."""


def pack(console: Console, name: str, results: Path, out: Path, test: Path | None) -> None:
    """Write the model of a run to a folder, with its scores; `test` is a folder of recordings to measure it on."""
    record = find(name, results)
    path = results / record.experiment / record.name / CHECKPOINT
    checkpoint = load_checkpoint(path)
    if checkpoint is None or "model" not in checkpoint:
        raise FileNotFoundError(f"there is no checkpoint '{path}'. Make it with: {record.command}")
    if record.experiment == "lipreading":
        from phased.paper.lipreading.pack import reader_of

        with console.status("measuring"):
            reader_of(record, checkpoint["model"]).save(out)
    else:
        classifier_of(console, record, checkpoint["model"], test).save(out)
    console.print(f"  {out}", soft_wrap=True, markup=False, highlight=False)


def classifier_of(console: Console, record: Record, state: Mapping[str, Tensor], test: Path | None) -> Classifier:
    """The event classifier of a run."""
    classifier = Classifier.of(network(state), about=about(record))
    if test is not None:
        real = measured(console, classifier, test)
        classifier = classifier.described(replace(classifier.config.about, scores=(*classifier.config.about.scores, real)))
    return classifier


def find(name: str, results: Path) -> Record:
    """The record of a run; a ValueError with the names of others if there is none."""
    records = read(results).records
    found = [record for record in records if record.name == name]
    if not found:
        others = ", ".join(sorted({record.name for record in records if record.experiment in PACKED})) or "none"
        raise ValueError(f"there is no result of a run '{name}' in '{results}'. Those of {' and '.join(PACKED)}: {others}.")
    return max(found, key=lambda record: record.date)


def network(state: Mapping[str, Tensor]) -> Any:
    """The network of a state_dict; its sizes follow from the shapes, the gate's shape from the layer's own settings."""
    settings = getattr(state, "_metadata", {}).get("rnn", {}).get("settings", {})
    return sizes_in(state, gate=settings.get("gate", "triangle")).load(state)


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


def measured(console: Console, classifier: Classifier, folder: Path) -> Score:
    """The accuracy on recordings of a camera, in one folder per class."""
    total = classify(Console(quiet=True), console, classifier, [folder], Options())
    if total.named != total.recordings:
        raise ValueError(f"'{folder}' must have one folder per class, named {', '.join(classifier.classes)}.")
    return Score(total.correct / total.named, total.named, f"recordings in {folder.name}", simulated=False)
