"""The `phased` command: what it says, what it writes, and how it fails."""

import os
import shlex
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import phased
from disk import room_for
from phased import cli, ops
from phased_lab.bench.cases import Benchmark, Case
from phased_lab.paper import waves
from phased_lab.runs import discovery, folder
from phased_lab.runs.descriptor import Experiment
from phased_lab.runs.sweep import runs_of
from records import put, result


@pytest.fixture
def nothing_may_run(monkeypatch):
    def ran(*_):
        pytest.fail("an experiment was computed although its result could not be kept")

    commands = discovery.commands()
    commands |= {name: replace(found, draw=ran) for name, found in commands.items() if isinstance(found, Experiment)}
    assert {"gate", "memory", "schedule"} <= commands.keys()
    monkeypatch.setattr(discovery, "commands", lambda: commands)
    monkeypatch.setattr("phased_lab.runs.sweep.connected", ran)


def test_the_package_is_the_command_and_prints_its_version_and_nothing_else():
    result = subprocess.run([sys.executable, "-m", "phased", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"phased {phased.__version__}\n"


def test_info_tells_the_versions_and_every_backend_and_why_one_cannot_run(call, monkeypatch):
    told = call("info").output
    assert all(expected in told for expected in (phased.__version__, torch.__version__, *ops.backends()))
    present = next(iter(ops.backends().values()))
    absent = ops.Backend("abacus", "beads on wires", present.run, missing=lambda device=None: "there are no beads. Buy some.")
    monkeypatch.setattr("phased.cli.info.backends", lambda: {present.name: present, absent.name: absent})
    result = call("info")
    (line,) = (line for line in result.output.splitlines() if line.startswith(present.name))
    assert "yes" in line
    (line,) = (line for line in result.output.splitlines() if line.startswith("abacus"))
    assert "no" in line
    assert "there are no beads. Buy some." in result.output


def test_a_full_device_and_ctrl_c_while_torch_is_imported_end_without_a_traceback(tmp_path):
    (tmp_path / "torch.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "phased", "info"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert (process.communicate(), process.returncode) == (("", ""), 130)
    try:
        os.mknod(tmp_path / "full", 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("devices cannot be made")
    with (tmp_path / "full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("phased: cannot write to the standard output: No space left on device.")


QUICKLY = {"fit": ("--epochs", "1"), "run": ("--seeds", "1", "--only", "*-phased-*")}


@pytest.fixture
def tiny(monkeypatch, in_process):
    """The quick scale made one of a second, in this process."""
    training = {"epochs": 2, "train": 64, "test": 32}
    monkeypatch.setitem(waves.FREQUENCY.quick, "network", {"units": 6})
    monkeypatch.setitem(waves.FREQUENCY.quick, "training", training)
    monkeypatch.setattr(waves, "DEMO", {"network": {"units": 6, "leak": 0.0}, "training": training})
    monkeypatch.setattr("phased_lab.cli.demo.EVENTS", 200)


@pytest.mark.usefixtures("tiny")
def test_demo_trains_three_networks_streams_and_makes_a_page(call, tmp_path):
    folder = tmp_path / "new" / "folder"
    result = call("demo", "--out", folder)
    assert result.exit_code == 0, result.output
    for expected in ("PhasedLSTM   ", "nn.LSTM, normalised input", "Stream.push", "µs per event", "Try next:"):
        assert expected in result.output
    assert str(folder / "demo.html") in result.output
    page = (folder / "demo.html").read_text(encoding="utf-8")
    assert page.count("<polyline") == 3
    assert page.count('class="bar ') == 4
    ElementTree.fromstring(page[page.index("<svg") : page.index("<h2>Gates")])
    commands = [shlex.split(line)[1:] for line in result.output.partition("Try next:")[2].splitlines() if line.strip()]
    assert [command[0] for command in commands] == ["fit", "classify", "run"]
    for command in commands:
        assert call(*command, *QUICKLY.get(command[0], ())).exit_code == 0
    times = {file: file.stat().st_mtime for file in (folder / "results" / "frequency").glob("*demo*.jsonl")}
    assert len(times) == 3
    assert call("demo", "--out", folder).exit_code == 0
    assert {file: file.stat().st_mtime for file in times} == times, "nothing is trained again"


# Options of single studies


REFUSED = [  # what follows `phased`, the code of the exit, the message
    ("run frequency --scale huge", 1, "scale must be one of"),
    ("run frequency --seeds 100000000", 1, "seeds must be at most 10000, got more. Choose fewer."),
    ("run frequency --seeds 0", 1, "seeds must be at least one, got none."),
    ("run frequency --only nothing", 1, "only must match a run, got 'nothing'. The runs are frequency-standard-phased"),
    ("run frequency --jobs 0", 1, "jobs must be at least 1, got 0"),
    ("run frequency --device cpu:7", 1, "device must be 'cuda' or 'cuda:' and a number, got 'cpu:7'. Use 'cuda:0'"),
    ("run frequency --device cuda:99", 1, "device must be "),
    ("run frequency --colour=red", 2, "No such option: --colour"),
    ("run frequency --periods paper more", 2, "unexpected extra argument"),
    ("run adding --periods paper", 2, "No such option: --periods"),
    ("run gate --scale quick", 2, "No such option: --scale"),
    ("run gates", 2, "there is no experiment 'gates'. Choose one of 'gate', "),
    *((f"run sparsity --periods{word}", 1, "periods must be one of 'paper', 'authors', got '") for word in ("=mine", " ''")),
]


@pytest.mark.usefixtures("nothing_may_run")
@pytest.mark.parametrize("words, code, message", REFUSED)
def test_what_cannot_be_run_is_answered_with_what_there_is_and_no_experiment_is_computed(refused, tmp_path, words, code, message):
    refused(message, *shlex.split(words), "--out", tmp_path / "new", code=code)
    assert not list(tmp_path.rglob("*.*"))


def test_without_a_name_all_experiments_are_listed_the_papers_first_and_so_with_an_unknown_one(call):
    lines = [line.split() for line in call("run").output.splitlines()[1:]]
    about = {name: found.about for name, found in discovery.commands().items()}
    assert {line[0] for line in lines} == about.keys()
    assert [line[0] for line in lines[:3]] == ["gate", "memory", "frequency"]
    assert all(" ".join(line).endswith(about[line[0]]) for line in lines)
    assert all(f"'{name}'" in call("run", "gates").output for name in about)
    told = " ".join(call("run", "--help").output.replace("│", " ").split())
    assert all(f"{name} {words[0].upper()}{words[1:]}." in told for name, words in about.items())


def test_the_help_of_a_study_has_its_options_and_no_others(call):
    told = " ".join(call("run", "sparsity", "--help").output.replace("│", " ").split())
    assert "--periods paper|authors The law of the waves' periods." in told
    assert "--skip-bad" not in told
    assert "--skip-bad" in call("run", "nmnist-real", "--help").output
    assert "--animate" in call("run", "gate", "--help").output


def test_a_report_reads_every_file_once_and_names_what_it_skips(call, tmp_path, monkeypatch):
    put(tmp_path / "results", *(result(epochs=2, seed=seed, model=model) for seed in range(2) for model in ("phased", "lstm")))
    really, seen = folder.lines, []
    monkeypatch.setattr(folder, "lines", lambda file: (seen.append(file), really(file))[1])
    (tmp_path / "results" / "broken.jsonl").write_text('{"experiment": "freq')
    told = call("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    assert "broken.jsonl', line 1: skipped, it is not the record of a run (" in told.output
    assert sorted(seen) == sorted((tmp_path / "results").rglob("*.jsonl"))
    assert {"report.html", "frequency-bars.png", "frequency-learning.svg"} <= {file.name for file in (tmp_path / "out").iterdir()}
    assert all(str(file) in told.output for file in (tmp_path / "out").iterdir()), "every file is named"


@pytest.mark.usefixtures("nothing_may_run")
@pytest.mark.parametrize("arguments", [("demo",), ("run", "gate"), ("run", "adding"), ("report",)])
def test_a_folder_that_cannot_be_written_to_is_an_error_before_anything_is_computed(refused, tmp_path, arguments):
    occupied, closed = tmp_path / "occupied", tmp_path / "closed"
    occupied.write_text("something else")
    closed.mkdir(0o500)
    outs = [occupied, occupied / "below"]
    outs += [Path("/proc/phased")] if sys.platform == "linux" else []  # root cannot write to it either
    outs += [closed] if os.geteuid() else []
    for out in outs:
        result = refused(f"cannot write to the folder '{out}'", *arguments, "--out", out)
        assert "It was set by --out." in result.output
    assert occupied.read_text() == "something else"


# Disks and what lies on them

ONE = ("run", "frequency", "--scale", "quick", "--seeds", 1, "--only", "*-phased-*", "--out")


@pytest.mark.usefixtures("tiny")
def test_a_full_disk_fails_a_run_a_drawing_and_a_benchmark_without_a_traceback(refused, tmp_path, monkeypatch):
    measured = Benchmark(lambda: [Case("much", "", lambda: {"much": "x" * 10_000})], ())
    monkeypatch.setattr("phased_lab.bench.training.tasks", measured)
    file = tmp_path / "tasks.json"
    with room_for(2000):
        refused(f"cannot write '{tmp_path / 'memory.png'}': File too large", "run", "memory", "--out", tmp_path)
        refused(f"cannot write '{file}': File too large", "bench", "tasks", "--json", file)
        assert list(tmp_path.iterdir()) == []
        result = refused("failed: OSError: cannot write", *ONE, tmp_path)
    assert "File too large" in result.output
    assert "Make room" in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.usefixtures("tiny")
def test_a_file_in_the_place_of_a_runs_folder_fails_that_run_only(refused, tmp_path):
    (run, *others) = runs_of("frequency", "quick", [0])
    run.folder(tmp_path).parent.mkdir(parents=True)
    run.folder(tmp_path).write_text("in the way")
    says = f"cannot write to the folder '{run.folder(tmp_path)}': it is no folder. Move it away"
    refused(says, "run", "frequency", "--scale", "quick", "--seeds", 1, "--out", tmp_path)
    assert all(other.file(tmp_path).exists() for other in others)


@pytest.mark.usefixtures("nothing_may_run")
def test_without_matplotlib_the_demo_says_how_to_get_it(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused("pip install 'phased[lab]'", "demo", "--out", tmp_path / "out")
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
    monkeypatch.setitem(sys.modules, "phased.cli.errors", None)
    with pytest.raises(ModuleNotFoundError, match="phased"):
        cli.main()
