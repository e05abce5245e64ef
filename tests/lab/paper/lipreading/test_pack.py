"""A lip reader from a finished run."""

from dataclasses import replace

import pytest
import torch

from phased.learn.store import CHECKPOINT, load_checkpoint
from phased_lab.lipreader import LipReader
from phased_lab.paper.lipreading import LIPREADING
from phased_lab.paper.lipreading.pack import SILENCES
from phased_lab.runs.run import execute
from phased_lab.runs.sweep import runs_of


@pytest.fixture
def finished(clips, tmp_path, monkeypatch):
    """A small run of a study, its record and its state."""
    monkeypatch.setenv("PHASED_DATA", str(clips))

    def finish(study: str, model: str):
        run = next(run for run in runs_of(study, "quick", [0]) if run.network.model == model)
        run = run.vary(training={"epochs": 1}, network={"units": (6, 6, 8, 8), "periods": ((20.0, 200.0), (100.0, 500.0))})
        record = execute(run, tmp_path, "cpu")
        return run, record, load_checkpoint(run.folder(tmp_path) / CHECKPOINT)["model"]

    return finish


@pytest.mark.parametrize("study", ["lipreading", "lipreading-normalised"])
def test_a_run_becomes_a_lip_reader_with_scores_that_computes_the_same(finished, clips, tmp_path, monkeypatch, study):
    run, record, state = finished(study, "phased")
    other = replace(record, settings=record.settings | {"task": record.settings["task"] | {"names": "of other clips"}})
    with pytest.raises(ValueError, match="expected the clips of the run, by their names, got as many others"):
        LIPREADING.pack(other, state, str(clips))
    trained, batch = run.build(), run.task.batch(0, "test", 1, 0, 1)
    trained.load_state_dict(state)
    monkeypatch.delenv("PHASED_DATA")
    LIPREADING.pack(record, state, str(clips)).save(tmp_path / "model")
    reader = LipReader.load(tmp_path / "model")
    with torch.no_grad():
        expected, found = trained.eval()(batch), reader.network(batch)
    torch.testing.assert_close(found[batch.mask], expected[batch.mask], atol=0.02, rtol=0)  # weights in half precision
    config = reader.config
    assert len(config.about.scores) == 6
    assert all(0 <= score <= 1 for score in config.about.scores.values())
    assert config.rate == 25
    assert config.timing.silence in SILENCES
    # The words have six different places of 120 ms, from 200 ms on.
    assert config.timing.begin.mean == 200.0
    assert {normal.mean for normal in config.timing.durations} == {120.0}


def test_a_run_of_an_lstm_is_refused(finished):
    _, record, state = finished("lipreading", "lstm")
    with pytest.raises(ValueError, match="a lip reader must have Phased LSTM layers, got a run of 'lstm'"):
        LIPREADING.pack(record, state, "")
