"""The command is stopped by SIGTERM as by Ctrl-C, no process survives it, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from phased_lab.paper.waves import FREQUENCY

TINY = {"network": {"units": 6}, "training": {"epochs": 40, "train": 64, "test": 32}}
STOPPED = "phased: stopped. Finished runs are kept, and the same command continues with the others.\n"
# The command, with the quick scale of Figure 3 made tiny: three short runs, two at a time.
COMMAND = f"""
from phased.cli import main
from phased_lab.paper.waves import FREQUENCY

FREQUENCY.quick.update({TINY})
if __name__ == "__main__":
    main()
"""


def start(*arguments: object) -> subprocess.Popen:
    """The command as a process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(there: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, f"not in {seconds} seconds"
        time.sleep(0.01)


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # an orphan that the system has not yet cleared away
    except psutil.NoSuchProcess:
        return True


def stopped_when(there: Callable[[], object], parent: subprocess.Popen, sent: signal.Signals) -> str:
    """Send a signal to the command once something is there. Its processes end. Return what it printed as an error."""
    until(lambda: there() or parent.poll() is not None, 120)
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert workers
    parent.send_signal(sent)
    _, told = parent.communicate(timeout=60)
    until(lambda: all(map(ended, workers)), 10)
    return told


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("sent, code", [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_ends_the_command_and_its_workers_and_the_same_command_goes_on(call, tmp_path, monkeypatch, sent, code):
    arguments = ("run", "frequency", "--seeds", 2, "--scale", "quick", "--device", "cpu", "--out", tmp_path)
    parent, results = start(*arguments, "--jobs", 2), tmp_path / "frequency"
    told = stopped_when(lambda: list(results.glob("*.jsonl")), parent, sent)
    assert told == STOPPED or sent == signal.SIGKILL
    assert parent.returncode == code
    finished = {path: path.stat().st_mtime_ns for path in results.glob("*.jsonl")}
    assert 1 <= len(finished) < 6  # at most two are under way, so some are left however fast they are
    for part, settings in TINY.items():
        monkeypatch.setitem(FREQUENCY.quick, part, settings)
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert f"Finished before, not run again: {len(finished)}." in again.output
    assert len(list(results.glob("*.jsonl"))) == 6
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
