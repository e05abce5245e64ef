"""What earlier code has saved loads and answers as it did: the files and folders in `saved`, with their answers.

Among them are an `Online.dump` and checkpoints, which name their model and their training by texts that must not change. After an
intended change of a format, write one again: `PHASED_WRITE_NETS=1 pytest tests/nets/test_saved.py -k NAME`.
"""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from patients import known, measured, patients
from phased import LogUniform, PhasedGRU, PhasedLSTM, Stream
from phased.classifier import Classifier
from phased.data.recording import Sensor
from phased.estimator import Events, PhasedClassifier, PhasedRegressor
from phased.learn import Training, fit, make_fabric
from phased.learn.store import CHECKPOINT, load_checkpoint
from phased.model_folder import BadModel
from phased_lab.clips import WORDS
from phased_lab.lipreader import About, Config, LipReader, Scaling, Timing
from phased_lab.lipreader.network import phased_network
from recordings import network, recording
from speaking import made_up
from training import EveryStep, Signs

SAVED = Path(__file__).with_name("saved")
ANSWERS = SAVED / "answers.json"
TINY = Sensor(4, 3)
SETTINGS = {"units": 3, "epochs": 2, "batch_size": 16, "random_state": 0}
PEEPHOLE = {"num_layers": 2, "bidirectional": True, "peephole": True, "batch_first": True, "leak": 0.125, "dropout": 0.25}
GATES = {"period": LogUniform(2, 40), "ratio_on": 0.3}
TRAINING = Training(epochs=2, train=24, test=16, batch=8)
X, Y = patients()


class Kind(NamedTuple):
    """`make` saves something at a path; `ask` loads it from there, and returns numbers."""

    make: Callable[[Path], Any]
    ask: Callable[[Path], list[Any]]


def events() -> tuple[torch.Tensor, torch.Tensor]:
    """Input (4, 10, 3) and times, the same in every version of torch."""
    random = np.random.default_rng(0)
    return torch.tensor(random.normal(size=(4, 10, 3))), torch.tensor(random.random((4, 10)).cumsum(1) * 5)


def of_layer(rnn: Any) -> list[Any]:
    x, time = events()
    x, time = (x, time) if rnn.batch_first else (x.transpose(0, 1), time.T)
    output, state = rnn.eval()(x.to(rnn.dtype), time)
    return [output.detach(), *(each.detach() for each in (state if isinstance(state, tuple) else (state,)))]


def stepped(stream: Stream) -> Stream:
    stream.run(*(part[0] for part in events()))
    return stream


def of_stream(stream: Stream) -> list[Any]:
    x, time = events()
    return [stream.push(x[1, 0], 100.0), stream.run(x[2], 100.0 + time[2])]


def of_estimator(model: Any) -> list[Any]:
    online = model.online(static=known(X, 5))
    answers = [online.push(time, values) for time, values in measured(X, 5)]
    return [model.predict_proba(X[:9]) if hasattr(model, "predict_proba") else model.predict(X[:9]), answers]


def with_text() -> tuple[Events, list[str]]:
    """A table with text variables, dates, static values, and numbers that mean "not known"."""
    rows = range(60)
    table = {
        "id": [f"p{row // 3}" for row in rows],
        "time": [f"2026-01-{1 + row // 3:02} {8 + row % 3:02}:30" for row in rows],
        "HR": [80.0 + row % 7 if row % 5 else -1.0 for row in rows],
        "rhythm": [("regular", "irregular", "")[row % 3] for row in rows],
        "Age": [40 + row // 3 for row in rows],
    }
    return Events.read(table, id="id", time="time", static=["Age"], missing=[-1], unit="h"), ["ill", "well"] * 10


def lip_reader() -> LipReader:
    about = About("phased run lipreading", "Made-up clips.", {"words, video alone": 0.5}, {"phased": "0.1.0"}, "2026-11-16", ())
    spans = np.stack([made_up(seed).sentence.spans for seed in range(3)])
    config = Config((2, 2, 3), 2, True, 100, Scaling(torch.zeros(39), torch.ones(39)), Timing.of(spans), about)
    return LipReader.of(config, phased_network((2, 2, 3), 2, len(WORDS), normalised=True).state_dict())


def followed(reader: LipReader) -> list[Any]:
    clip = made_up(5)
    return [*(each[::9] for each in reader.follow(clip)), reader.read(clip).spans]


def trained(folder: Path, epochs: int) -> list[Any]:
    training = Training(**(vars(TRAINING) | {"epochs": epochs}))
    found = fit(Signs(), EveryStep().build(Signs(), 0), training, folder, make_fabric("cpu"))
    assert found.resumed == (0 if epochs == TRAINING.epochs else TRAINING.epochs)
    return [[epoch.loss, epoch.test] for epoch in found.curve]


def exported() -> torch.export.ExportedProgram:
    """A graph of a layer without the places in its source, which are those of one machine."""
    program = torch.export.export(PhasedLSTM(3, 2, dtype=torch.float64, **GATES).eval(), events())
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def identity() -> str:
    """The texts by which the checkpoint of an estimator names its training; what is told of the data are their digests."""
    with TemporaryDirectory() as folder:
        PhasedClassifier(checkpoint=folder, **SETTINGS).fit(X, Y)
        return json.dumps(load_checkpoint(Path(folder, CHECKPOINT))["identity"], indent=0) + "\n"


KINDS = {
    "lstm.safetensors": Kind(
        lambda path: PhasedLSTM(3, 2, **PEEPHOLE, **GATES).eval().save(path), lambda path: of_layer(PhasedLSTM.load(path))
    ),
    "gru.safetensors": Kind(
        lambda path: PhasedGRU(3, 2, bias=False, gate="square", dtype=torch.float64, **GATES).save(path),
        lambda path: of_layer(PhasedGRU.load(path)),
    ),
    "layer.pickle": Kind(
        lambda path: path.write_bytes(pickle.dumps(PhasedLSTM(3, 2, **GATES))),
        lambda path: of_layer(pickle.loads(path.read_bytes())),
    ),
    "stream.pickle": Kind(
        lambda path: path.write_bytes(pickle.dumps(stepped(Stream(PhasedGRU(3, 2, dtype=torch.float64, **GATES))))),
        lambda path: of_stream(pickle.loads(path.read_bytes())),
    ),
    "exported.pt2": Kind(
        lambda path: torch.export.save(exported(), path),
        lambda path: [torch.export.load(path).module()(*events())[0].detach()],
    ),
    "classifier": Kind(
        lambda path: Classifier.of(network(units=3, sensor=TINY, outputs=3, hidden=2), classes=["a", "b", "c"]).save(path),
        lambda path: [Classifier.load(path).classify(recording(50, sensor=TINY)).probabilities],
    ),
    "classifier of a GRU": Kind(
        lambda path: Classifier.of(network(units=3, layers=2, sensor=TINY, outputs=2, cell=PhasedGRU, mean=True)).save(path),
        lambda path: [Classifier.load(path).classify(recording(50, sensor=TINY)).probabilities],
    ),
    "lip reader": Kind(
        lambda path: lip_reader().save(path),
        lambda path: [
            *(each[::9] for each in LipReader.load(path).follow(made_up(5))),
            LipReader.load(path).read(made_up(5)).spans,
        ],
    ),
    "estimator": Kind(
        lambda path: PhasedClassifier(**SETTINGS).fit(X, Y).save(path), lambda path: of_estimator(PhasedClassifier.load(path))
    ),
    "estimator of numbers": Kind(
        lambda path: PhasedRegressor(cell="phased_gru", updates=0.5, **SETTINGS).fit(X, X.time * 10.0).save(path),
        lambda path: of_estimator(PhasedRegressor.load(path)),
    ),
    "estimator of text": Kind(
        lambda path: PhasedClassifier(**SETTINGS).fit(*with_text()).save(path),
        lambda path: [PhasedClassifier.load(path).predict_proba(with_text()[0])],
    ),
    "estimator.pickle": Kind(
        lambda path: path.write_bytes(pickle.dumps(PhasedClassifier(**SETTINGS).fit(X, Y))),
        lambda path: of_estimator(pickle.loads(path.read_bytes())),
    ),
    "online.dump": Kind(
        lambda path: path.write_bytes(pushed(PhasedClassifier.load(SAVED / "estimator").online()).dump()),
        lambda path: [pushed(PhasedClassifier.load(SAVED / "estimator").online(state=path.read_bytes()), 50.0).push(60.0, {})],
    ),
    "checkpoint": Kind(lambda path: trained(path, 2), lambda path: trained(path, 3)),
    "identity.json": Kind(lambda path: path.write_text(identity()), lambda path: [identity() == path.read_text()]),
}


def pushed(online: Any, start: float = 0.0) -> Any:
    for time in range(3):
        online.push(start + time, {"HR": 90.0 + time, "GCS": 7.0})
    return online


@pytest.mark.parametrize("name", KINDS)
def test_it_loads_and_answers_as_it_did(name, tmp_path):
    kind, place, golden = KINDS[name], SAVED / name, json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    if os.environ.get("PHASED_WRITE_NETS"):
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        kind.make(place)
    own = tmp_path / name  # a checkpoint goes on, and is written again
    shutil.copytree(place, own) if place.is_dir() else shutil.copy(place, own)
    found = [np.asarray(each, np.float64) for each in kind.ask(own)]
    if os.environ.get("PHASED_WRITE_NETS"):
        golden[name] = [np.round(each, 6).tolist() for each in found]
        ANSWERS.write_text(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    assert len(found) == len(golden[name])
    for one, other in zip(found, golden[name], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_an_estimator_of_version_3_is_refused_with_what_to_do():
    with pytest.raises(BadModel, match="Fit the model again"):
        PhasedClassifier.load(SAVED / "estimator of version 3")
