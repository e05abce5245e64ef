"""The benchmark of reading tables: the table is what it says, and the command prints and writes rows a second."""

import json

from typer.testing import CliRunner

from phased.cli.app import app
from phased.estimator import Events
from phased_lab.bench import reading


def test_the_table_has_every_measurement_once_in_no_order():
    table = reading.frame(4440)
    assert table["id"].n_unique() == 10
    assert not table["id"].is_sorted()
    events = Events.read(table, unit="h")
    assert (len(events), len(events.variables), len(events.value)) == (10, reading.VARIABLES, 4440)


def test_the_command_prints_and_writes_the_time_of_each_source(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "measure", lambda rows, rounds: reading.seconds(4440, rounds))
    found = CliRunner().invoke(app, ["bench", "reading", "--quick", "--json", str(tmp_path / "reading.json")])
    assert found.exit_code == 0, found.output
    seconds = json.loads((tmp_path / "reading.json").read_bytes())["seconds"]
    assert list(seconds) == ["CSV", "Parquet", "polars"]
    assert all(name in found.output for name in seconds)
