"""The `phased` command: what it says, what it writes, and how it fails."""

import json
import os
import resource
import subprocess
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
from phased.experiments.sweep import runs_of
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


def test_the_version_is_printed_and_nothing_else(call):
    result = call("--version")
    assert (result.exit_code, result.output) == (0, f"phased {phased.__version__}\n")


def test_the_package_is_the_command():
    result = subprocess.run([sys.executable, "-m", "phased", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"phased {phased.__version__}\n"


def test_info_tells_the_versions_and_every_backend(call):
    result = call("info")
    assert result.exit_code == 0
    for expected in (phased.__version__, torch.__version__, *ops.backends()):
        assert expected in result.output


def test_info_says_why_a_backend_cannot_run(call, monkeypatch):
    present = next(iter(ops.backends().values()))
    absent = ops.Backend("abacus", "beads on wires", present.run, missing=lambda device=None: "there are no beads. Buy some.")
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
        (("--seeds", 100_000_000), "seeds must be at most 10000, got more. Choose fewer."),
        (("--jobs", 0), "jobs must be at least 1, got 0"),
        (("--device", "tpu"), "device must be one of"),
        (("--device", "cpu:7"), "device must have no number except for 'cuda', got 'cpu:7'. Use 'cpu'."),
        (("--device", "cuda:x"), "device must be 'cuda' or 'cuda:' and a number, got 'cuda:x'. Use 'cuda:0'"),
        (("--device", "cuda:99"), "device must be "),
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
@pytest.mark.parametrize("arguments", [("demo",), ("run", "gate"), ("run", "adding"), ("report",)])
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


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that root cannot write to either")
@pytest.mark.usefixtures("nothing_may_run")
@pytest.mark.parametrize("arguments", [("demo",), ("run", "gate"), ("run", "adding"), ("report",)])
def test_a_folder_that_cannot_be_made_is_an_error_before_anything_is_computed(call, arguments):
    result = call(*arguments, "--out", "/proc/phased")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "cannot write to the folder '/proc/phased'" in result.output
    assert "Choose another folder. It was chosen by --out." in result.output


# Disks and what lies on them

ONE = ("run", "frequency", "--scale", "quick", "--seeds", 1, "--only", "*-phased-*", "--out")


@pytest.fixture
def full_disk():
    """No file can have more than two kilobytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("tiny", "full_disk")
def test_a_full_disk_fails_a_run_without_a_traceback(call, tmp_path):
    result = call(*ONE, tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "failed: OSError: cannot write" in result.output
    assert "File too large" in result.output
    assert "Make room" in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_fails_a_drawing_without_a_traceback(call, tmp_path):
    result = call("run", "memory", "--out", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"cannot write '{tmp_path / 'memory.png'}': File too large" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_fails_a_benchmark_without_a_traceback(call, tmp_path, monkeypatch):
    monkeypatch.setattr("phased.cli.bench.bench_tasks", lambda console, quick: {"much": "x" * 10_000})
    result = call("bench", "tasks", "--json", tmp_path / "tasks.json")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"cannot write '{tmp_path / 'tasks.json'}': File too large" in result.output


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '{"settings": [1, 2], "curve": [{}]}',
        '{"settings": {}, "curve": []}',
        "[" * 100_000,
        "\udcff",
        "9" * 5000,
        "{}\n{}",
        "folder",
    ],
)
def test_what_is_no_result_is_named_and_left_as_it_is(call, tmp_path, text):
    (run,) = runs_of("frequency", "quick", [0], only="*-phased-*")
    path = run.result(tmp_path)
    if text == "folder":
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = call(*ONE, tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"'{path}' should hold the result of a run, but does not. Choose another folder, or move it away" in result.output
    assert path.is_dir() or path.read_bytes() == text.encode("utf-8", "surrogateescape")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("odd", [{"curve": ["a", "b"]}, {"wall": "long"}, {"seed": None}])
def test_a_result_with_odd_values_is_named(call, tmp_path, odd):
    (run,) = runs_of("frequency", "quick", [0], only="*-phased-*")
    assert call(*ONE, tmp_path).exit_code == 0
    path = run.result(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | odd))
    result = call(*ONE, tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"'{path}' is no result: " in result.output
    assert "Move it away to run it again." in result.output


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("content", [b"", b"odd", [1, 2], {"a": 1}])
def test_what_is_no_checkpoint_is_named_and_left_as_it_is(call, tmp_path, content):
    (run,) = runs_of("frequency", "quick", [0], only="*-phased-*")
    path = run.folder(tmp_path) / "checkpoint.pt"
    path.parent.mkdir(parents=True)
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    before = path.read_bytes()
    result = call(*ONE, tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"failed: ValueError: '{path}'" in result.output
    assert "elete it to start anew" in result.output
    assert path.read_bytes() == before


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("log", ["odd", "[]", "[" * 100_000, '{"epoch": 1}', "\0"])
def test_an_odd_log_does_not_disturb_a_run(call, tmp_path, log):
    (run,) = runs_of("frequency", "quick", [0], only="*-phased-*")
    run.folder(tmp_path).mkdir(parents=True)
    (run.folder(tmp_path) / "epochs.ndjson").write_text(log)
    assert call(*ONE, tmp_path).exit_code == 0
    assert len((run.folder(tmp_path) / "epochs.ndjson").read_text().splitlines()) == 2


@pytest.mark.usefixtures("tiny")
def test_a_file_in_the_place_of_a_runs_folder_fails_that_run_only(call, tmp_path):
    (run, *others) = runs_of("frequency", "quick", [0])
    run.folder(tmp_path).parent.mkdir(parents=True)
    run.folder(tmp_path).write_text("in the way")
    result = call("run", "frequency", "--scale", "quick", "--seeds", 1, "--out", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"cannot write to the folder '{run.folder(tmp_path)}': it is a file. Move it away" in result.output
    assert all(other.result(tmp_path).exists() for other in others)


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
