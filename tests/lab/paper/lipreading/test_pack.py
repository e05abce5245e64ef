"""A lip reader from a finished run."""

from dataclasses import replace

import pytest
import torch

from phased.learn.store import CHECKPOINT, load_checkpoint
from phased_lab.lipreader import LipReader
from phased_lab.paper.lipreading.pack import SILENCES
from phased_lab.runs import catalogue
from phased_lab.runs.run import execute
from phased_lab.runs.sweep import runs_of


def test_a_run_with_normalised_inputs_becomes_a_lip_reader_without(clips, tmp_path, monkeypatch):
    monkeypatch.setenv("PHASED_DATA", str(clips))
    (run,) = runs_of("lipreading-normalised", "quick", [0])
    network = replace(run.network, units=(6, 6, 8, 8), periods=((20.0, 200.0), (100.0, 500.0)))
    run = replace(run, training=replace(run.training, epochs=1), network=network)
    record = execute(run, tmp_path, "cpu")
    state = load_checkpoint(run.folder(tmp_path) / CHECKPOINT)["model"]
    catalogue.experiment("lipreading").pack(record, state, str(clips)).save(tmp_path / "model")
    reader = LipReader.load(tmp_path / "model")
    trained = run.build()
    trained.load_state_dict(state)
    batch = run.task.batch(0, "test", 1, 0, 1)
    with torch.no_grad():
        expected, found = trained.eval()(batch), reader.network(batch)
    torch.testing.assert_close(found[batch.mask], expected[batch.mask], atol=0.02, rtol=0)  # weights in half precision


@pytest.mark.parametrize("model", ["phased", "lstm"])
def test_a_run_becomes_a_lip_reader_with_scores_and_one_of_an_lstm_is_refused(clips, tmp_path, monkeypatch, model):
    monkeypatch.setenv("PHASED_DATA", str(clips))
    run = next(run for run in runs_of("lipreading", "quick", [0]) if run.network.model == model)
    network = replace(run.network, units=(6, 6, 8, 8), periods=((20.0, 200.0), (100.0, 500.0)))
    run = replace(run, training=replace(run.training, epochs=1), network=network)
    record = execute(run, tmp_path, "cpu")
    state = load_checkpoint(run.folder(tmp_path) / CHECKPOINT)["model"]
    make = catalogue.experiment("lipreading").pack
    if model == "lstm":
        with pytest.raises(ValueError, match="a lip reader must have Phased LSTM layers, got a run of 'lstm'"):
            make(record, state, "")
        return
    other = replace(record, settings=record.settings | {"task": record.settings["task"] | {"names": "of other clips"}})
    with pytest.raises(ValueError, match="expected the clips of the run, by their names, got as many others"):
        make(other, state, str(clips))
    monkeypatch.delenv("PHASED_DATA")
    make(record, state, str(clips)).save(tmp_path / "model")
    reader = LipReader.load(tmp_path / "model")
    scores = reader.config.about.scores
    assert len(scores) == 6
    assert all(0 <= score <= 1 for score in scores.values())
    assert reader.config.rate == 25
    assert reader.config.timing.silence in SILENCES
    # The words have six different places of 120 ms, from 200 ms on.
    assert reader.config.timing.begin.mean == 200.0
    assert {normal.mean for normal in reader.config.timing.durations} == {120.0}
