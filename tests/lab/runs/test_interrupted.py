"""The command is stopped by SIGTERM as by Ctrl-C, no worker survives it, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

# The command, with the quick scale of Figure 3 made tiny: six short runs, of which at most two are under way.
COMMAND = """
from phased.cli import main
from phased_lab.paper.waves import FREQUENCY

FREQUENCY.quick.update(network={"units": 6}, training={"epochs": 40, "train": 64, "test": 32})
if __name__ == "__main__":
    main()
"""


def start(script: str, *arguments: object) -> subprocess.Popen:
    """A process that runs a script."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
    arguments = ("run", "frequency", "--scale", "quick", "--seeds", 2, "--jobs", 2, "--out", tmp_path, "--device", "cpu")
    parent = start(COMMAND, *arguments)
    results = tmp_path / "frequency"
    until(lambda: list(results.glob("*.jsonl")) or parent.poll() is not None, "the first run finished")
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert len(workers) >= 2
    parent.send_signal(signal.SIGTERM)
    _, told = parent.communicate(timeout=60)
    assert parent.returncode == 143
    assert told == "phased: stopped. Finished runs are kept, and the same command continues with the others.\n"
    assert left(workers) == []
    finished = {path: path.stat().st_mtime_ns for path in results.glob("*.jsonl")}
    assert 1 <= len(finished) < 6
    again = start(COMMAND, *arguments)
    until(lambda: len(list(results.glob("*.jsonl"))) == 6 or again.poll() is not None, "the others finished")
    workers = psutil.Process(again.pid).children(recursive=True)
    again.kill()
    again.communicate()
    assert left(workers) == [], "workers end with their parent, also if it was killed"
    assert len(list(results.glob("*.jsonl"))) == 6
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "what was finished is not done again"
