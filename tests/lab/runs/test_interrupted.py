"""The command is stopped by SIGTERM as by Ctrl-C, no process survives it, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from digits import write_data

# The command, with the quick scale of Figure 3 made tiny: six short runs, of which at most two are under way.
COMMAND = """
from phased.cli import main
from phased_lab.paper.waves import FREQUENCY

FREQUENCY.quick.update(network={"units": 6}, training={"epochs": 40, "train": 64, "test": 32})
if __name__ == "__main__":
    main()
"""


def start(*arguments: object) -> subprocess.Popen:
    """The command as a process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    command = [sys.executable, "-c", COMMAND, "run", *map(str, arguments), "--scale", "quick", "--device", "cpu"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stopped(parent: subprocess.Popen) -> None:
    """Stop the command. It says so, and its processes end."""
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert workers
    parent.send_signal(signal.SIGTERM)
    _, told = parent.communicate(timeout=60)
    assert parent.returncode == 143
    assert told == "phased: stopped. Finished runs are kept, and the same command continues with the others.\n"
    assert left(workers) == []


def until(condition, what: str) -> None:
    end = time.monotonic() + 120
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not in two minutes: {what}")
        time.sleep(0.01)


def left(workers: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that are still alive after ten seconds; these are then killed."""
    _, alive = psutil.wait_procs(workers, timeout=10)
    for worker in alive:
        worker.kill()
    return alive


def test_sigterm_stops_the_command_as_ctrl_c_does_and_the_same_command_goes_on(tmp_path: Path):
    arguments = ("frequency", "--seeds", 2, "--jobs", 2, "--out", tmp_path)
    parent = start(*arguments)
    results = tmp_path / "frequency"
    until(lambda: list(results.glob("*.jsonl")) or parent.poll() is not None, "the first run finished")
    stopped(parent)
    finished = {path: path.stat().st_mtime_ns for path in results.glob("*.jsonl")}
    assert 1 <= len(finished) < 6
    again = start(*arguments)
    until(lambda: len(list(results.glob("*.jsonl"))) == 6 or again.poll() is not None, "the others finished")
    workers = psutil.Process(again.pid).children(recursive=True)
    again.kill()
    again.communicate()
    assert left(workers) == [], "workers end with their parent, also if it was killed"
    assert len(list(results.glob("*.jsonl"))) == 6
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "what was finished is not done again"


def test_sigterm_stops_the_command_while_it_simulates_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("PHASED_DATA", str(write_data(tmp_path / "data", images={"train": 2000, "t10k": 500})))
    monkeypatch.setenv("PHASED_CACHE", str(cache))
    parent = start("nmnist", "--seeds", 1, "--only", "*-phased-*", "--out", tmp_path / "results")
    until(lambda: list(cache.glob("simulated-train-*")) or parent.poll() is not None, "simulation began")
    stopped(parent)
    assert list(cache.glob("*.safetensors")) == []
