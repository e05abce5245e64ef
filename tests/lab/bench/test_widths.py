"""The benchmark of widths: the command prints and writes the seconds of an epoch of every cell at every width."""

import json

from typer.testing import CliRunner

from phased.cli.app import app
from phased_lab.bench import tables, widths


def test_the_command_prints_and_writes_the_seconds_of_every_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(widths, "WIDTHS", (2, 3))
    found = CliRunner().invoke(app, ["bench", "widths", "--quick", "--json", str(tmp_path / "widths.json")])
    assert found.exit_code == 0, found.output
    result = json.loads((tmp_path / "widths.json").read_bytes())
    assert list(result["seconds"]) == ["2", "3"]
    for cells in result["seconds"].values():
        assert list(cells) == ["phased LSTM", "nn.LSTM", "nn.GRU"]
        assert all(timing["low"] <= timing["median"] <= timing["high"] for timing in cells.values())
        assert all(timing["median"] > 0 for timing in cells.values())
    assert "200 sequences" in found.output


def test_the_table_has_a_row_for_every_width_and_how_many_times_faster_the_first_cell_is():
    seconds = {cell: {"median": value} for cell, value in {"phased LSTM": 2.0, "nn.LSTM": 5.0, "nn.GRU": 1.0}.items()}
    made = tables.widths({"title": "an epoch", "seconds": {"32": seconds}})
    assert "| 32 units | 2.00 s | 5.00 s, 2.5x | 1.00 s, 0.5x |" in made
