"""`phased bench` lists the benchmarks, gives each the options that it knows, and says what is wrong."""

import json
import subprocess
import sys

import pytest
import torch

from phased.ops.native import core
from phased_lab.bench import BENCHMARKS, stream
from phased_lab.bench.cases import load


def test_without_a_name_the_benchmarks_are_listed(call):
    found = call("bench")
    assert found.exit_code == 0
    assert all(name in found.output and about in found.output for name, about in BENCHMARKS.items())


def test_a_list_of_benchmarks_imports_none():
    code = "import sys; from phased.cli.app import app; app(['bench'], standalone_mode=False); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_the_options_that_it_knows(call, name):
    found = call("bench", name, "--help")
    assert found.exit_code == 0
    words = {word for word in found.output.split() if word.startswith("--")} - {"--help"}
    physionet = {"--data", "--seeds", "--folds"}
    tables = {*physionet, "--set", "--model", "--fold", "--peers"}
    own = {"physionet": physionet, "tables": tables, "estimators": {"--seeds"}}.get(name, set())
    cpu = set() if name in ("cuda", "memory", "reading", "startup") else {"--instructions"}
    assert words == {"--json", "--quick"} | own | cpu
    assert load(name).plan(quick=True).keys() == load(name).plan().keys()


@pytest.mark.parametrize(
    "words, code, message",
    [
        (("gpu",), 2, "there is no benchmark 'gpu'. Choose one of cpu, cuda, stream, tasks, nmnist, epoch"),
        (("cpu", "--seeds", "3"), 2, "No such option: --seeds"),
        (("physionet", "--folds", "1"), 2, "--folds"),
        (("physionet", "--data", "nowhere"), 1, "expected PhysioNet 2012: set-a and Outcomes-a.txt, in 'nowhere'"),
        (("cpu", "--instructions", "mmx"), 2, "--instructions must be one that this CPU has"),
        (("cpu", "--json", "."), 1, "'.' must be a file to write, got a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_answered_with_what_to_do(refused, words, code, message):
    refused(message, "bench", *words, code=code)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_benchmark_says_what_it_needs(refused):
    refused("torch sees no CUDA device. Run on a machine with an NVIDIA GPU", "bench", "cuda")


@pytest.fixture
def short(monkeypatch):
    """The benchmark of streams with a few events."""
    plan = {"rounds": 1, "events": 50, "units": (), "lengths": ()}
    monkeypatch.setattr(stream, "stream", stream.benchmark(*load("stream").sheets, quick=plan)(load("stream").cases))


@pytest.mark.usefixtures("short")
@pytest.mark.skipif(core is None, reason="no compiled core")
def test_the_command_prints_tables_and_writes_what_it_measured(call, tmp_path):
    found = call("bench", "stream", "--quick", "--json", tmp_path / "stream.json")
    assert found.exit_code == 0, found.output
    assert "an event, H110 D41, one core" in found.output
    (case,) = json.loads((tmp_path / "stream.json").read_bytes())["cases"]
    assert all(name in found.output for name in case["seconds"])


@pytest.mark.skipif(core is None, reason="no compiled core")
@pytest.mark.parametrize(
    "words, wanted",
    [
        (("stream", "--instructions", "baseline"), {"PHASED_INSTRUCTION_SET": "baseline", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
        (("reading",), {"POLARS_MAX_THREADS": "1"}),
    ],
    ids=["instructions", "threads"],
)
def test_a_benchmark_with_an_environment_is_measured_in_a_process_of_its_own(call, monkeypatch, words, wanted):
    started = []

    def run(command, env, check):
        started.append((command, env))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "of another run")
    monkeypatch.setattr("sys.argv", ["phased", "bench", *words])
    assert call("bench", *words).exit_code == 3
    ((command, env),) = started
    assert command == [sys.executable, "-m", "phased", "bench", *words]
    assert env.items() >= wanted.items()
    assert env.get("ONEDNN_MAX_CPU_ISA") != "of another run"
