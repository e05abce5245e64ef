"""Sweeps that are killed, stopped, or started twice: no worker survives, no finished run is lost, no run is executed twice."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from phased.learn.store import LOG
from phased.lock import locked
from phased_lab.runs.sweep import sweep
from phased_lab.runs.workers import Event
from training import SMALL, Slow, execute, same_numbers, tiny_run

SLOW = Slow(points=SMALL.points, duration=SMALL.duration)
TESTS = Path(__file__).parents[2]
# The command, with the quick scale of Figure 3 made tiny: three runs of a second or two.
COMMAND = """
from dataclasses import replace
from phased.cli import main
from phased_lab.paper.frequency import runs as frequency
from phased.learn.loop import Training

quick = frequency.FIGURES["quick"]
training = Training(epochs=40, train=64, test=32)
frequency.FIGURES["quick"] = replace(quick, network=replace(quick.network, units=6), training=training)
main()
"""
# Two jobs on two runs that take a minute.
LONG = """
import sys
from pathlib import Path
from phased_lab.runs.sweep import sweep
from training import SMALL, Slow, tiny_run

slow = Slow(points=SMALL.points, duration=SMALL.duration)
sweep([tiny_run(slow, epochs=600, seed=seed) for seed in range(2)], Path(sys.argv[1]), jobs=2, device="cpu")
"""
# Four short runs; prints what it did.
SHORT = """
import json, sys
from pathlib import Path
from phased_lab.runs.sweep import sweep
from training import SMALL, Slow, tiny_run

slow = Slow(points=SMALL.points, duration=SMALL.duration)
summary = sweep([tiny_run(slow, seed=seed) for seed in range(4)], Path(sys.argv[1]), jobs=int(sys.argv[2]), device="cpu")
print(json.dumps([[run.name for run in summary.done], [run.name for run in summary.skipped], summary.failed]))
"""


def start(script: str, *arguments: object) -> subprocess.Popen:
    """A process that runs a script, with this folder's test material."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
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


def epochs(folder: Path) -> int:
    """How many epochs the logs in a folder have."""
    return sum(len(log.read_text().splitlines()) for log in folder.rglob(LOG))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_soon_after_a_sweep_that_is_killed(tmp_path, how):
    parent = start(LONG, tmp_path)
    until(lambda: len(list(tmp_path.rglob(LOG))) == 2 and epochs(tmp_path) >= 2, "both runs at work")
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert len(workers) >= 2
    parent.send_signal(how)
    assert parent.wait(30) == -how, "a script has no handler"
    assert left(workers) == []
    parent.communicate()
    stopped = epochs(tmp_path)
    time.sleep(0.5)
    assert epochs(tmp_path) == stopped < 1200


def test_sigterm_stops_the_command_as_ctrl_c_does_and_the_same_command_goes_on(tmp_path):
    arguments = ("run", "frequency", "--scale", "quick", "--seeds", 1, "--jobs", 2, "--out", tmp_path, "--device", "cpu")
    parent = start(COMMAND, *arguments)
    results = tmp_path / "frequency"
    until(lambda: list(results.glob("*.jsonl")) or parent.poll() is not None, "the first run finished")
    workers = psutil.Process(parent.pid).children(recursive=True)
    parent.send_signal(signal.SIGTERM)
    _, told = parent.communicate(timeout=60)
    assert parent.returncode == 143
    assert "stopped. Finished runs are kept, and the same command continues with the others." in told
    assert "Traceback" not in told
    assert left(workers) == []
    finished = {path: path.stat().st_mtime_ns for path in results.glob("*.jsonl")}
    assert 1 <= len(finished) < 3
    again = start(COMMAND, *arguments)
    _, told = again.communicate(timeout=120)
    assert again.returncode == 0, told
    assert len(list(results.glob("*.jsonl"))) == 3
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "what was finished is not done again"


def test_two_sweeps_in_one_folder_share_the_runs(tmp_path):
    both = [start(SHORT, tmp_path / "shared", jobs) for jobs in (1, 2)]
    summaries = []
    for process in both:
        printed, told = process.communicate(timeout=120)
        assert process.returncode == 0, told
        summaries.append(json.loads(printed))
    runs = [tiny_run(SLOW, seed=seed) for seed in range(4)]
    done = [name for names, _, _ in summaries for name in names]
    assert sorted(done) == sorted(run.name for run in runs), "each run was done once"
    for names, skipped, failed in summaries:
        assert sorted([*names, *skipped]) == sorted(done)
        assert failed == {}
    for run in runs:
        line = json.loads(run.file(tmp_path / "shared").read_text())
        assert same_numbers(line) == same_numbers(execute(run, tmp_path / "alone"))
        assert {file.name for file in run.folder(tmp_path / "shared").iterdir()} == {"checkpoint.pt", LOG}


def test_a_run_of_another_sweep_is_left_alone_until_that_ends(tmp_path):
    busy, free = tiny_run(), tiny_run(seed=1)
    folder = busy.folder(tmp_path)
    folder.mkdir(parents=True)
    unfinished = folder / ".phased-0123456789abcdef.part"
    unfinished.touch()
    told: list[Event] = []
    thread = threading.Thread(target=sweep, args=([busy, free], tmp_path), kwargs={"device": "cpu", "progress": told.append})
    with locked(folder / "started") as held:
        assert held
        thread.start()
        until(lambda: free.file(tmp_path).exists(), "the other run finished")
        time.sleep(0.5)
        assert unfinished.exists()
        assert not busy.file(tmp_path).exists()
    thread.join()
    assert busy.file(tmp_path).exists()
    assert [(event.run, event.state) for event in told if event.epoch is None] == [(busy, "busy"), (free, "done"), (busy, "done")]


def test_the_result_of_another_sweep_is_not_made_again(tmp_path):
    run = tiny_run()
    folder = run.folder(tmp_path)
    folder.mkdir(parents=True)
    told: list[Event] = []
    thread = threading.Thread(target=sweep, args=([run], tmp_path), kwargs={"device": "cpu", "progress": told.append})
    with locked(folder / "started"):
        thread.start()
        until(lambda: told, "the run found busy")
        execute(run, tmp_path)
        stamp = run.file(tmp_path).stat().st_mtime_ns
    thread.join()
    assert run.file(tmp_path).stat().st_mtime_ns == stamp
    assert [event.state for event in told if event.epoch is None] == ["busy", "skipped"]


def test_the_mark_of_a_killed_process_does_not_block(tmp_path):
    run = tiny_run()
    run.folder(tmp_path).mkdir(parents=True)
    (run.folder(tmp_path) / "started").touch()
    assert sweep([run], tmp_path, device="cpu").done == [run]


def test_a_lock_is_held_by_one_and_gone_afterwards(tmp_path):
    path = tmp_path / "lock"
    held = []

    def hold():
        with locked(path, wait=True):
            held.append(len(held))
            with locked(path) as second:
                assert not second
            time.sleep(0.01)

    threads = [threading.Thread(target=hold) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [0, 1, 2, 3, 4]
    assert not path.exists()
