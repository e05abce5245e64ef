"""The `phased` command: what it says, what it writes, and how it fails."""

import json
import os
import sys
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import phased
from phased import cli, ops
from phased.cli import catalogue
from phased.cli.app import app
from phased.experiments import frequency
from phased.train import Settings


@pytest.fixture
def call():
    # A wide terminal: messages are compared as sentences, not as wrapped lines.
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, [str(a) for a in arguments])


@pytest.fixture
def nothing_may_run(monkeypatch):
    def ran(folder):
        pytest.fail("an experiment was computed although its result could not be kept")

    experiments = {name: catalogue.Experiment(e.about, ran) for name, e in catalogue.EXPERIMENTS.items()}
    monkeypatch.setattr("phased.cli.app.EXPERIMENTS", experiments)


def test_info_tells_the_versions_and_every_backend(call):
    result = call("info")
    assert result.exit_code == 0
    for expected in (phased.__version__, torch.__version__, *ops.backends()):
        assert expected in result.output


def test_info_says_why_a_backend_cannot_run(call, monkeypatch):
    present = next(iter(ops.backends().values()))
    absent = ops.Backend("abacus", "beads on wires", present.run, missing="there are no beads. Buy some.")
    monkeypatch.setattr("phased.cli.info.backends", lambda: {present.name: present, absent.name: absent})
    result = call("info")
    (line,) = (line for line in result.output.splitlines() if line.startswith(present.name))
    assert "yes" in line
    (line,) = (line for line in result.output.splitlines() if line.startswith("abacus"))
    assert "no" in line
    assert "there are no beads. Buy some." in result.output


@pytest.fixture
def tiny(monkeypatch):
    """The quick scale made one of a second."""
    quick = frequency.FIGURES["quick"]
    small = replace(quick, network=replace(quick.network, units=6), training=Settings(epochs=2, train=64, test=32))
    monkeypatch.setitem(frequency.FIGURES, "quick", small)
    monkeypatch.setattr("phased.cli.demo.EVENTS", 200)


@pytest.mark.usefixtures("tiny")
def test_demo_trains_three_networks_streams_and_makes_a_page(call, tmp_path):
    folder = tmp_path / "new" / "folder"
    result = call("demo", "--out", folder)
    assert result.exit_code == 0, result.output
    for expected in ("phased-leak0-seed0", "bn-lstm-seed0", "-lstm-seed0", "Stream.push", "us an event", "bench cpu"):
        assert expected in result.output
    assert str(folder / "report.html") in result.output
    assert (folder / "report.html").stat().st_size > 100_000
    assert len(list((folder / "results" / "frequency").glob("*.jsonl"))) == 3
    again = call("demo", "--out", folder)
    assert "There already, and not run again: 3." in again.output


@pytest.mark.usefixtures("tiny")
def test_run_trains_what_is_missing_and_report_draws_it(call, tmp_path):
    arguments = ("run", "frequency", "--scale", "quick", "--seeds", 1, "--out", tmp_path / "results", "--only", "*-phased-*")
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    (line,) = (tmp_path / "results" / "frequency").glob("*.jsonl")
    assert json.loads(line.read_text())["scale"] == "quick"
    line.with_name("broken.jsonl").write_text('{"experiment": "freq')
    result = call("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert ": skipped, " in result.output
    assert "broken.jsonl" in result.output
    assert (tmp_path / "out" / "report.html").exists()
    assert line.with_name("broken.jsonl").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--scale", "huge"), "scale must be one of"),
        (("--only", "nothing"), "only must match a run"),
        (("--periods", "mine"), "periods must be one of"),
        (("--seeds", 0), "seeds must be at least one"),
        (("--device", "tpu"), "device must be one of"),
    ],
)
def test_a_run_that_cannot_be_says_what_there_is(call, tmp_path, arguments, message):
    result = call("run", "frequency", "--out", tmp_path, *arguments)
    assert result.exit_code == 1
    assert message in result.output


def test_what_is_only_drawn_has_no_other_scales_either(call, tmp_path):
    result = call("run", "gate", "--scale", "huge", "--out", tmp_path)
    assert result.exit_code == 1
    assert "scale must be one of" in result.output
    assert list(tmp_path.iterdir()) == []


def test_run_computes_the_experiment_named_and_no_other(call, tmp_path):
    result = call("run", "memory", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["memory.png", "memory.svg"]


@pytest.mark.usefixtures("nothing_may_run")
def test_an_unknown_experiment_is_an_error_that_lists_the_known_ones(call, tmp_path):
    result = call("run", "gates", "--out", tmp_path)
    assert result.exit_code == 2
    for expected in ("there is no experiment 'gates'", *catalogue.EXPERIMENTS, *catalogue.TRAINED):
        assert expected in result.output


@pytest.mark.usefixtures("nothing_may_run")
@pytest.mark.parametrize("arguments", [("demo",), ("run", "gate")])
def test_a_folder_that_is_a_file_is_an_error_before_anything_is_computed(call, tmp_path, arguments):
    occupied = tmp_path / "occupied"
    occupied.write_text("something else")
    for out in (occupied, occupied / "below"):
        result = call(*arguments, "--out", out)
        assert result.exit_code == 1
        assert f"cannot write to the folder '{out}'" in result.output
        assert "--out" in result.output
    assert occupied.read_text() == "something else"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.usefixtures("nothing_may_run")
def test_a_folder_without_permission_is_an_error_before_anything_is_computed(call, tmp_path):
    tmp_path.chmod(0o500)
    result = call("demo", "--out", tmp_path)
    tmp_path.chmod(0o700)
    assert result.exit_code == 1
    assert f"cannot write to the folder '{tmp_path}'" in result.output


@pytest.mark.usefixtures("nothing_may_run")
def test_without_matplotlib_the_demo_says_how_to_get_it(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = call("demo", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "pip install 'phased[figures]'" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_its_extra_the_command_says_how_to_get_it(library, monkeypatch):
    monkeypatch.delitem(sys.modules, "phased.cli.app")
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SystemExit, match=rf"needs {library}.*pip install 'phased\[cli\]'"):
        cli.main()


def test_an_import_error_of_our_own_is_not_blamed_on_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "phased.cli.app")
    monkeypatch.setitem(sys.modules, "phased.cli.catalogue", None)
    with pytest.raises(ModuleNotFoundError, match="phased"):
        cli.main()
