"""The command is stopped by SIGTERM as by Ctrl-C, no process survives it, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from phased_lab.paper.waves import FREQUENCY

TINY = {"network": {"units": 6}, "training": {"epochs": 40, "train": 64, "test": 32}}
# The command, with the quick scale of Figure 3 made tiny: three short runs, two at a time.
COMMAND = f"""
from phased.cli import main
from phased_lab.paper.waves import FREQUENCY

FREQUENCY.quick.update({TINY})
if __name__ == "__main__":
    main()
"""


@pytest.mark.usefixtures("in_process")
def test_sigterm_stops_the_command_as_ctrl_c_does_and_the_same_command_goes_on(call, tmp_path: Path, monkeypatch):
    arguments = ("run", "frequency", "--seeds", "1", "--scale", "quick", "--device", "cpu", "--out", str(tmp_path))
    parent = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, "--jobs", "2"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    results, end = tmp_path / "frequency", time.monotonic() + 120
    while not list(results.glob("*.jsonl")):
        assert parent.poll() is None
        assert time.monotonic() < end, "the first run did not finish in two minutes"
        time.sleep(0.01)
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert workers
    parent.send_signal(signal.SIGTERM)
    _, told = parent.communicate(timeout=60)
    assert parent.returncode == 143
    assert told == "phased: stopped. Finished runs are kept, and the same command continues with the others.\n"
    _, alive = psutil.wait_procs(workers, timeout=10)
    for worker in alive:
        worker.kill()
    assert alive == []
    finished = {path: path.stat().st_mtime_ns for path in results.glob("*.jsonl")}
    assert 1 <= len(finished) < 3
    for part, settings in TINY.items():
        monkeypatch.setitem(FREQUENCY.quick, part, settings)
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert f"Finished before, not run again: {len(finished)}." in again.output
    assert len(list(results.glob("*.jsonl"))) == 3
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
