"""The benchmark of online sequences: the command prints and writes the times."""

import json

from typer.testing import CliRunner

from phased.cli.app import app
from phased_lab.bench import online


def test_the_command_prints_and_writes_the_time_of_each_way(tmp_path, monkeypatch):
    monkeypatch.setattr(online, "SEQUENCES", 40)
    monkeypatch.setattr(online, "STEPS", 6)
    found = CliRunner().invoke(app, ["bench", "online", "--quick", "--json", str(tmp_path / "online.json")])
    assert found.exit_code == 0, found.output
    event = json.loads((tmp_path / "online.json").read_bytes())["event"]
    assert list(event) == ["push", "push, without the compiled core", "predict_proba of the sequence so far"]
    assert all(name in found.output for name in event)
    assert all(timing["median"] > 0 for timing in event.values())
