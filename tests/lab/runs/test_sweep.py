"""Sweeps: missing runs are executed, failures are reported, and a failing run does not stop others."""

import json
import os
import threading
from itertools import count

import pytest
from distributed import LocalCluster

from phased.learn.store import LOG
from phased_lab.runs import catalogue
from phased_lab.runs.descriptor import Study
from phased_lab.runs.record import parse
from phased_lab.runs.sweep import runs_of, sweep
from phased_lab.runs.watch import Log
from phased_lab.runs.workers import Event
from training import SMALL, Deadly, Failing, execute, same_numbers, tiny_run

FAILING = Failing(points=SMALL.points, duration=SMALL.duration)
DEADLY = Deadly(points=SMALL.points, duration=SMALL.duration)


def names(runs):
    return sorted(run.name for run in runs)


def test_a_second_sweep_does_only_what_is_missing(tmp_path):
    first, second = [tiny_run(seed=seed) for seed in (0, 1)], [tiny_run(seed=seed) for seed in (0, 1, 2)]
    assert names(sweep(first, tmp_path, device="cpu").done) == names(first)
    stamps = {run.name: run.file(tmp_path).stat().st_mtime_ns for run in first}
    summary = sweep(second, tmp_path, device="cpu")
    assert names(summary.skipped) == names(first)
    assert names(summary.done) == names(second[2:])
    assert {run.name: run.file(tmp_path).stat().st_mtime_ns for run in first} == stamps
    first[0].file(tmp_path).unlink()
    assert names(sweep(second, tmp_path, device="cpu").done) == names(first[:1])
    again = sweep(second, tmp_path, device="cpu")
    assert (again.skipped, again.done, again.failed) == (second, [], {})


def test_one_job_reports_a_failed_run_with_its_traceback_and_goes_on(tmp_path):
    bad, good = tiny_run(task=FAILING, seed=1), tiny_run()
    summary = sweep([bad, good], tmp_path, device="cpu")
    assert names(summary.done) == [good.name]
    assert summary.failed.keys() == {bad.name}
    error = bad.folder(tmp_path.resolve()) / "error.txt"
    assert summary.failed[bad.name] == f"RuntimeError: the third epoch is unlucky (traceback in '{error}')"
    assert "Traceback" in error.read_text()
    assert not bad.file(tmp_path).exists()


def test_a_failed_run_is_tried_again_from_its_checkpoint(tmp_path):
    bad = tiny_run(task=FAILING)
    sweep([bad], tmp_path, device="cpu")
    assert len((bad.folder(tmp_path) / "epochs.ndjson").read_text().splitlines()) == 2
    told: list[Event] = []
    assert sweep([bad], tmp_path, device="cpu", progress=told.append).failed
    assert [event.state for event in told] == ["failed"], "no epoch was repeated"


def test_one_job_in_this_process_reports_every_epoch_once_before_its_end_and_no_thread_watches_a_log(tmp_path, monkeypatch):
    monkeypatch.setattr("phased_lab.runs.sweep.watching", lambda *_: pytest.fail("a log was watched"))
    before = set(threading.enumerate())
    told: list[Event] = []

    def watch(event: Event) -> None:
        assert threading.current_thread() is threading.main_thread()
        assert set(threading.enumerate()) <= before
        told.append(event)

    good, bad = [tiny_run(seed=seed) for seed in range(2)], tiny_run(task=FAILING, seed=5)
    summary = sweep([good[0], bad, good[1]], tmp_path, device="cpu", progress=watch)
    assert names(summary.done) == names(good)
    assert [(event.run, event.state, event.epoch and event.epoch.epoch) for event in told] == [
        *((good[0], "running", epoch) for epoch in (1, 2, 3)),
        (good[0], "done", None),
        *((bad, "running", epoch) for epoch in (1, 2)),
        (bad, "failed", None),
        *((good[1], "running", epoch) for epoch in (1, 2, 3)),
        (good[1], "done", None),
    ]
    for run in good:
        curve = [event.epoch for event in told if event.run == run and event.epoch is not None]
        assert tuple(curve) == summary.records[run.name].curve


def test_several_jobs_survive_a_failed_run_and_a_killed_process(tmp_path):
    """A killed process breaks its pool; the other runs in it still finish, with the results of a run alone."""
    good = [tiny_run(seed=seed) for seed in range(4)]
    bad, deadly = tiny_run(task=FAILING, seed=5), tiny_run(task=DEADLY, seed=6)
    told: list[Event] = []
    summary = sweep([good[0], deadly, bad, *good[1:]], tmp_path / "swept", jobs=2, device="cpu", progress=told.append)
    assert names(summary.done) == names(good)
    assert summary.failed.keys() == {bad.name, deadly.name}
    assert "its process was killed" in summary.failed[deadly.name]
    for run in good:
        alone = execute(run, tmp_path / "alone")
        assert same_numbers(json.loads(run.file(tmp_path / "swept").read_text())) == same_numbers(alone)
    ends = {event.run.name: event.state for event in told if event.state != "running"}
    assert ends == {run.name: "done" for run in good} | {bad.name: "failed", deadly.name: "failed"}
    for run in good:
        epochs = [event.epoch.epoch for event in told if event.run == run and event.epoch is not None]
        assert epochs == [1, 2, 3], "every epoch is told once, before the end"
        assert [event.state for event in told if event.run == run][-1] == "done"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of dask's own sockets, at its end
def test_a_dask_cluster_of_two_processes_runs_a_sweep(tmp_path):
    good, bad = [tiny_run(seed=seed) for seed in range(3)], tiny_run(task=FAILING, seed=5)
    told: list[Event] = []
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        summary = sweep([bad, *good], tmp_path / "swept", cluster=address, device="cpu", progress=told.append)
        assert sweep(good, tmp_path / "swept", cluster=address, device="cpu").skipped == good
    assert names(summary.done) == names(good)
    assert summary.failed.keys() == {bad.name}
    assert (bad.folder(tmp_path / "swept") / "error.txt").exists()
    for run in good:
        alone = execute(run, tmp_path / "alone")
        assert same_numbers(json.loads(run.file(tmp_path / "swept").read_text())) == same_numbers(alone)
        assert [event.state for event in told if event.run == run] == ["running"] * 3 + ["done"]


def test_a_worker_that_does_not_share_our_folder_sends_its_line(tmp_path, monkeypatch):
    run = tiny_run()
    line = execute(run, tmp_path / "there")
    record = parse(run.file(tmp_path / "there").read_bytes())
    monkeypatch.setattr("phased_lab.runs.workers.execute", lambda *_: record)
    assert names(sweep([run], tmp_path / "here", device="cpu").done) == [run.name]
    assert json.loads(run.file(tmp_path / "here").read_text()) == line


def test_an_address_without_a_scheduler_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr("distributed.Client", refuse)
    with pytest.raises(OSError, match=r"cannot reach a dask scheduler at 'tcp://127.0.0.1:1'.*Start one with: dask scheduler"):
        sweep([tiny_run()], tmp_path, cluster="tcp://127.0.0.1:1")


def test_nothing_starts_in_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write to the folder .*hoose another"):
        sweep([tiny_run()], tmp_path / "file", progress=lambda event: pytest.fail("something started"))


def test_a_file_that_is_no_result_is_left_as_it_is_and_the_other_runs_go_on(tmp_path):
    cut, good = tiny_run(seed=1), tiny_run()
    execute(cut, tmp_path)
    half = cut.file(tmp_path).read_bytes()[:100]
    cut.file(tmp_path).write_bytes(half)
    summary = sweep([cut, good], tmp_path, device="cpu")
    assert names(summary.done) == [good.name]
    assert (
        "should hold the result of a run, but does not: it is cut off or not JSON. Choose another folder"
        in summary.failed[cut.name]
    )
    assert cut.file(tmp_path).read_bytes() == half


@pytest.mark.parametrize("log", ['{"epoch": 1, "lo', '{"epoch": 1}\n', "[]\n", "\n"])
def test_a_log_that_is_none_stops_nothing(tmp_path, log):
    run = tiny_run()
    run.folder(tmp_path).mkdir(parents=True)
    (run.folder(tmp_path) / "epochs.ndjson").write_text(log)
    assert names(sweep([run], tmp_path, device="cpu").done) == [run.name]


def test_a_device_that_does_not_exist_is_told_before_anything_starts(tmp_path):
    with pytest.raises(ValueError, match="device must be one of 'auto', 'cpu', 'cuda', got 'tpu'"):
        sweep([tiny_run()], tmp_path, device="tpu", progress=lambda event: pytest.fail("something started"))


def test_nothing_starts_beside_results_of_other_settings(tmp_path):
    run = tiny_run(epochs=1)
    execute(run, tmp_path)
    with pytest.raises(ValueError, match="with other settings: epochs is 1 there, 2 here"):
        sweep([tiny_run(seed=7), tiny_run(epochs=2)], tmp_path, progress=lambda event: pytest.fail("something started"))


def test_an_experiment_is_run_by_its_name(tmp_path, monkeypatch):
    tiny = Study("tiny", "of the test", lambda scale, seeds: [tiny_run(seed=seed) for seed in seeds])
    monkeypatch.setattr("phased_lab.runs.catalogue.studies", lambda: {"tiny": tiny})
    summary = sweep(runs_of("tiny", "quick", [0, 1], only="*seed1*"), tmp_path, device="cpu")
    assert names(summary.done) == ["tiny-asynchronous-phased-leak0.001-seed1-quick"]


@pytest.mark.parametrize(
    "asked, message",
    [
        (
            {"name": "speech"},
            f"must be one of {', '.join(map(repr, catalogue.studies()))}, got 'speech'",
        ),
        ({"scale": "huge"}, "scale must be one of 'paper', 'quick', got 'huge'"),
        ({"seeds": []}, "seeds must be at least one, got none"),
        ({"seeds": [-1]}, "seeds must be whole numbers from 0 up, got [-1]"),
        ({"seeds": count()}, "seeds must be at most 10000, got more. Choose fewer."),
        ({"options": {"periods": "mine"}}, "periods must be one of 'paper', 'authors', got 'mine'"),
        (
            {"name": "adding", "options": {"periods": "paper"}},
            "'adding' must be run without the option 'periods', which it does not support",
        ),
        ({"options": {"period": "paper"}}, "which it does not support. Its options are: periods."),
        ({"name": "adding", "options": {"periods": "paper"}}, "It has no options of its own."),
        ({"only": "nothing"}, "only must match a run, got 'nothing'. The runs are frequency-asynchronous-phased"),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(asked, message):
    with pytest.raises(ValueError) as caught:
        runs_of(**({"name": "frequency", "scale": "quick", "seeds": [0]} | asked))
    assert message in str(caught.value)


def test_no_more_processes_start_than_there_are_runs(tmp_path, monkeypatch):
    started = []

    def pool(n_jobs, **_):
        started.append(n_jobs)
        return lambda calls: (function(*arguments) for function, arguments, _ in calls)

    monkeypatch.setattr("joblib.Parallel", pool)
    runs = [tiny_run(seed=seed, epochs=1) for seed in range(3)]
    assert names(sweep(runs, tmp_path, jobs=1_000_000, device="cpu").done) == names(runs)
    assert started == [3]


@pytest.mark.parametrize("jobs", [1, 2])
def test_two_runs_of_one_name_are_refused(tmp_path, jobs):
    runs = [tiny_run(), tiny_run(epochs=2)]
    with pytest.raises(ValueError, match=r"the names of runs must be different from each other, got tiny-.* twice"):
        sweep(runs, tmp_path, jobs=jobs, progress=lambda event: pytest.fail("something started"))


def test_jobs_are_counted_from_one(tmp_path):
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        sweep([tiny_run()], tmp_path, jobs=0)


def test_epochs_that_end_within_one_tick_of_the_clock_are_all_found(tmp_path):
    run = tiny_run()
    execute(run, tmp_path)
    lines = (run.folder(tmp_path) / LOG).read_text().splitlines(keepends=True)
    path = tmp_path / "log"
    log, found = Log(run, path), []
    for written in range(1, len(lines) + 1):
        path.write_text("".join(lines[:written]))
        os.utime(path, ns=(1, 1))
        found += log.news()
    assert [epoch.epoch for epoch in found] == [1, 2, 3]
