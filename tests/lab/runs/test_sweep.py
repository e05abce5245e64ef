"""Sweeps: missing runs are executed, failures are reported, and a failing run does not stop others."""

import json
import threading

import pytest
import torch
from filelock import FileLock

from phased_lab.runs import sweep as module
from phased_lab.runs.folder import gather
from phased_lab.runs.record import parse
from phased_lab.runs.sweep import LOCK, gpu_of, sweep
from training import SMALL, Unlucky, execute, same_numbers, tiny_run

FAILING, DEADLY = (Unlucky(points=SMALL.points, duration=SMALL.duration, deadly=deadly) for deadly in (False, True))
in_process = pytest.mark.usefixtures("in_process")


def names(runs):
    return sorted(run.name for run in runs)


@in_process
@pytest.mark.parametrize("gathered", [False, True])
def test_a_second_sweep_does_only_what_is_missing(tmp_path, gathered):
    first, third = [tiny_run(seed=seed) for seed in (0, 1)], tiny_run(seed=2)
    assert names(sweep(first, tmp_path, device="cpu").done) == names(first)
    if gathered:
        gather(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.jsonl")}
    assert len(before) == (1 if gathered else 2)
    summary = sweep([*first, third], tmp_path, device="cpu")
    assert (summary.skipped, summary.done, summary.failed) == (first, [third], {})
    assert summary.records.keys() == {run.name for run in (*first, third)}
    assert {file: file.stat().st_mtime_ns for file in before} == before
    third.file(tmp_path).unlink()
    assert sweep([*first, third], tmp_path, device="cpu").done == [third]


@in_process
def test_a_failed_run_leaves_its_traceback_the_others_go_on_and_it_is_tried_again_from_its_checkpoint(tmp_path):
    shown = []
    bad, good = tiny_run(task=FAILING, seed=1), tiny_run()
    summary = sweep([bad, good], tmp_path, device="cpu", show=lambda *what: shown.append(what))
    assert summary.done == [good]
    assert summary.failed.keys() == {bad.name}
    error = bad.folder(tmp_path.resolve()) / "error.txt"
    assert summary.failed[bad.name] == f"RuntimeError: the third epoch is unlucky (traceback in '{error}')"
    assert "Traceback" in error.read_text()
    assert not bad.file(tmp_path).exists()
    for run, epochs in ((bad, [1, 2]), (good, [1, 2, 3])):
        assert [done for name, done, total, news in shown if name == run.name and news] == epochs, "every epoch once"
    assert [what[:3] for what in shown if what[0] == "all runs"] == [("all runs", 1, 2), ("all runs", 2, 2)]
    del shown[:]
    assert sweep([bad], tmp_path, device="cpu", show=lambda *what: shown.append(what)).failed
    assert not any(news for _, _, _, news in shown), "no epoch was repeated"


def test_a_killed_worker_costs_one_run_and_the_others_go_on(tmp_path):
    """In processes, two at a time; the results are those of a run alone."""
    good = [tiny_run(seed=seed) for seed in range(3)]
    deadly = tiny_run(task=DEADLY, seed=6)
    summary = sweep([good[0], deadly, *good[1:]], tmp_path / "swept", jobs=2, device="cpu")
    assert names(summary.done) == names(good)
    assert summary.failed == {deadly.name: "its process was killed"}
    for run in good:
        alone = execute(run, tmp_path / "alone")
        assert same_numbers(json.loads(run.file(tmp_path / "swept").read_text())) == same_numbers(alone)


def test_the_workers_of_a_cluster_do_the_runs(one_worker, tmp_path):
    runs = [tiny_run(seed=seed) for seed in range(2)]
    summary = sweep(runs, tmp_path, cluster=one_worker.scheduler.address, device="cpu")
    assert (names(summary.done), summary.failed) == (names(runs), {})
    assert same_numbers(json.loads(runs[1].file(tmp_path).read_text())) == same_numbers(execute(runs[1], tmp_path / "alone"))


@in_process
def test_a_run_of_another_sweep_is_waited_for_and_not_done_again(tmp_path):
    run, summaries = tiny_run(), []
    run.folder(tmp_path).mkdir(parents=True)
    thread = threading.Thread(target=lambda: summaries.append(sweep([run], tmp_path, device="cpu")))
    with FileLock(run.folder(tmp_path) / LOCK):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        line = execute(run, tmp_path)
    thread.join()
    assert json.loads(run.file(tmp_path).read_text()) == line
    assert json.loads(summaries[0].records[run.name].line()) == line


@in_process
def test_a_worker_that_does_not_share_our_folder_sends_its_record(tmp_path, monkeypatch):
    run = tiny_run()
    line = execute(run, tmp_path / "there")
    record = parse(run.file(tmp_path / "there").read_bytes())
    monkeypatch.setattr(module, "execute", lambda *_: record)
    assert sweep([run], tmp_path / "here", device="cpu").done == [run]
    assert json.loads(run.file(tmp_path / "here").read_text()) == line


@in_process
def test_a_damaged_record_is_named_and_its_run_is_done_again(tmp_path):
    run = tiny_run()
    line = execute(run, tmp_path)
    run.file(tmp_path).write_bytes(run.file(tmp_path).read_bytes()[:100])
    with pytest.warns(UserWarning, match=rf"{run.name}\.jsonl', line 1: skipped, it is not the record of a run"):
        assert sweep([run], tmp_path, device="cpu").done == [run]
    assert same_numbers(json.loads(run.file(tmp_path).read_text())) == same_numbers(line)


def test_runs_on_this_machine_have_a_gpu_each_and_workers_of_a_cluster_see_their_own(monkeypatch):
    assert gpu_of("cpu", 3) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert [gpu_of("auto", number) for number in range(6)] == [f"cuda:{number}" for number in (0, 1, 2, 3, 0, 1)]
    assert (gpu_of("cuda:2", 1), gpu_of("auto", "tcp://10.0.0.1:8786")) == ("cuda:2", "auto")


def test_an_address_without_a_scheduler_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr("distributed.Client", refuse)
    with pytest.raises(OSError, match=r"cannot reach a dask scheduler at 'tcp://127.0.0.1:1'.*Start one with: dask scheduler"):
        sweep([tiny_run()], tmp_path, cluster="tcp://127.0.0.1:1")


@pytest.mark.parametrize("gathered", [False, True])
def test_nothing_starts_beside_results_of_other_settings(tmp_path, gathered, monkeypatch):
    monkeypatch.setattr(module, "connected", lambda *_: pytest.fail("something started"))
    execute(tiny_run(epochs=1), tmp_path)
    if gathered:
        gather(tmp_path)
    words = r"' has the result of 'tiny-.*' with other settings: epochs is 1 there, 2 here\. Choose another folder"
    with pytest.raises(ValueError, match=words):
        sweep([tiny_run(seed=7), tiny_run(epochs=2)], tmp_path)
