"""Sweeps: runs without a record are executed by the workers of a dask cluster, by default one of this machine."""

from __future__ import annotations

import logging
import threading
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from filelock import FileLock

from phased import check, files
from phased.learn.device import check_device
from phased.learn.store import Epoch
from phased.machine import cores
from phased_lab.runs import discovery
from phased_lab.runs.folder import lines
from phased_lab.runs.progress import Show, shown
from phased_lab.runs.record import Record
from phased_lab.runs.run import SCALES, Run, compare, execute

if TYPE_CHECKING:
    from distributed import Client

MOST_SEEDS, LISTED = 10_000, 100
ERROR, LOCK = "error.txt", "lock"
# torch's number of threads and random state are per process, so a worker with several threads executes one run at a time.
ONE_AT_A_TIME = threading.Lock()


@dataclass
class Summary:
    """Runs of a sweep by outcome. Failed runs are named, with the reason and the file of the traceback.

    `records` holds the records of done and skipped runs by name.
    """

    done: list[Run] = field(default_factory=list)
    skipped: list[Run] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)


def runs_of(
    name: str,
    scale: str = "paper",
    seeds: Sequence[int] = range(5),
    only: str = "*",
    options: Mapping[str, str] | None = None,
) -> list[Run]:
    """The runs of a study; `only` selects runs by name, with shell wildcards, and `options` are those of the study."""
    check.choice("scale", scale, SCALES)
    if len(seeds) > MOST_SEEDS:
        raise ValueError(f"seeds must be at most {MOST_SEEDS}, got more. Choose fewer.")
    if not seeds:
        raise ValueError("seeds must be at least one, got none.")
    study = discovery.studies()[name]
    for option, value in (options or {}).items():
        if study.experiment.options[option].values:
            check.choice(option, value, study.experiment.options[option].values)
    base = study.experiment.choose(study.experiment.at(scale).vary(study=name), options or {})
    runs = [run for seed in seeds for run in study.runs(base.vary(training={"seed": seed}))]
    chosen = [run for run in runs if fnmatch(run.name, only)]
    if not chosen:
        names = [run.name for run in runs[:LISTED]] + ["..."] * (len(runs) > LISTED)
        raise ValueError(f"only must match a run, got {only!r}. The runs are {', '.join(names)}.")
    return chosen


def sweep(
    runs: Sequence[Run],
    out: Path,
    jobs: int = 1,
    cluster: str | None = None,
    device: str = "auto",
    show: Show = lambda *what: None,
) -> Summary:
    """Run what has no record yet: `jobs` runs at a time on this machine, or one on each worker of a dask cluster.

    A run that fails writes a traceback beside its checkpoint, and the other runs continue, also if its process is killed. A run
    that another sweep is executing in this folder is waited for. No run starts if the folder cannot be written to or has records
    with other settings.

    Args:
        runs: with different names.
        out: the folder of the results.
        jobs: processes on this machine; each has its share of the cores, and a GPU of its own if there are as many.
        cluster: the address of a dask scheduler, instead.
        device: "auto", "cpu", "cuda" or "cuda:1".
        show: receives the progress of each run and of the sweep; see `Show`.
    """
    check.positive_int("jobs", jobs)
    if cluster is None:
        check_device(device)
    for place in {run.file(out).parent for run in runs}:
        files.writable(place)
    records = recorded(runs, out)
    summary = Summary(skipped=[run for run in runs if run.name in records], records=records)
    waiting = [run for run in runs if run.name not in records]
    if waiting:
        jobs = min(jobs, len(waiting))
        # On another cluster the scheduler divides the runs, also among workers that come later.
        at_once, threads = (len(waiting), None) if cluster else (jobs, max(1, min(torch.get_num_threads(), cores() // jobs)))
        how = out.resolve(), device, threads
        with connected(cluster, jobs) as client:
            for number, (run, end) in enumerate(ends(client, waiting, how, at_once, show), len(records) + 1):
                if isinstance(end, str):
                    summary.failed[run.name] = end
                else:
                    if not run.file(out).exists():  # the worker does not share this folder
                        files.write_whole(run.file(out), end.line().encode())
                    summary.done.append(run)
                    summary.records[run.name] = end
                show(run.name, run.training.epochs, run.training.epochs, "")
                show("all runs", number, len(runs), "")
    return summary


def recorded(runs: Sequence[Run], out: Path) -> dict[str, Record]:
    """Return the records of finished runs by name. Raises a ValueError if a record has other settings."""
    found: dict[str, Record] = {}
    others: dict[str, ValueError] = {}
    wanted = {run.name: run for run in runs}
    for path in sorted({path for run in runs for path in (run.file(out), run.study_file(out)) if path.exists()}):
        for record, _ in lines(path)[0]:
            run = wanted.get(record.name)
            if run is not None and record.scale == run.scale:
                try:
                    compare(run, record, path)
                    found[record.name] = record
                except ValueError as error:  # another record of the same name may have the right settings
                    others[record.name] = error
    for name in others.keys() - found.keys():
        raise others[name]
    return found


@contextmanager
def connected(address: str | None, jobs: int) -> Iterator[Client]:
    """Connect to the cluster at an address, or to a new one on this machine with a process per job."""
    import dask
    from distributed import Client, LocalCluster

    # A run is not repeated after its process was killed: it may have been the run. Loaders of batches are processes of workers.
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.daemon": False,
        "distributed.nanny.pre-spawn-environ": {},  # with dask's setting of malloc, training takes 1.5 times as long
    }
    if address is not None:
        try:
            client = Client(address, timeout="20s")
        except (OSError, ValueError) as error:
            raise OSError(f"cannot reach a dask scheduler at '{address}': {error}. Start one with: dask scheduler") from error
        with client:
            yield client
        return
    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=jobs, threads_per_worker=1, memory_limit=0, **quiet) as cluster,
        Client(cluster) as client,
    ):
        yield client


def ends(
    client: Client, runs: Sequence[Run], how: tuple[Path, str, int | None], at_once: int, show: Show
) -> Iterator[tuple[Run, Record | str]]:
    """Runs and their outcomes as they end; `how` are further arguments of `work`.

    As many are submitted as there are workers, so that a killed one costs one run.
    """
    from distributed import KilledWorker, as_completed

    topic, left = f"phased-{uuid.uuid4()}", iter(runs)
    client.subscribe_topic(topic, lambda event: show(*event[1]))
    started = {}
    done = as_completed()

    def start() -> None:
        run = next(left, None)
        if run is not None:
            future = client.submit(work, run, *how, topic, pure=False)
            started[future.key] = run
            done.add(future)

    for _ in range(at_once):
        start()
    for future in done:
        lost = future.exception()
        reason = "its process was killed" if isinstance(lost, KilledWorker) else f"{type(lost).__name__}: {lost}"
        yield started[future.key], future.result() if lost is None else reason
        start()
    client.unsubscribe_topic(topic)


def work(run: Run, out: Path, device: str, threads: int | None, topic: str) -> Record | str:
    """Execute a run on a worker and report its progress to the topic. An error of the run is returned as a message.

    `threads` is the number of torch's threads, None for torch's own.
    """
    from distributed import get_worker

    worker, folder = get_worker(), run.folder(out)

    def show(what: str, done: int, total: int, news: str = "") -> None:
        worker.log_event(topic, (what, done, total, news))

    def epoch(end: Epoch) -> None:
        show(run.name, end.epoch, run.training.epochs, f"loss {end.loss:.3f}, test {end.test:.3f}")

    with ONE_AT_A_TIME:
        try:
            with FileLock(files.writable(folder) / LOCK), shown(show):
                record = recorded([run], out).get(run.name)  # if another sweep has finished it since this one started
                if record is None:
                    (folder / ERROR).unlink(missing_ok=True)
                    if threads is not None:
                        torch.set_num_threads(threads)
                    record = execute(run, out, gpu_of(device, worker.name), epoch)
            return record
        except Exception as error:  # an error of any kind must not stop other runs
            words = f"{type(error).__name__}: {error}"
            with suppress(OSError):  # a file may be in the place of the folder
                files.write_whole(folder / ERROR, traceback.format_exc().encode())
                words += f" (traceback in '{folder / ERROR}')"
            return words


def gpu_of(device: str, worker: object) -> str:
    """Return the device of a worker. Workers of this machine are numbered and take a GPU each; other workers keep `device`."""
    if device in {"auto", "cuda"} and isinstance(worker, int) and torch.cuda.is_available():
        return f"cuda:{worker % torch.cuda.device_count()}"
    return device
