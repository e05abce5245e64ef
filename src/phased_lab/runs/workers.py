"""Executing runs: in this process, in several processes by joblib, or on the workers of a dask cluster."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from phased import files
from phased.learn.store import Epoch
from phased.lock import locked
from phased_lab.runs.orphan import end_with
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run, execute, finished

ERROR, STARTED = "error.txt", "started"


State = Literal["skipped", "busy", "running", "done", "failed"]


class Event(NamedTuple):
    """A change in the state of a run: after an epoch ("running"), "busy" in another sweep, or ended; `message` is an error."""

    run: Run
    state: State
    epoch: Epoch | None = None
    message: str = ""


Watch = Callable[[Event], None]


class Ended(NamedTuple):
    """The outcome of a run: "done", "skipped" (it has a record already), "failed" with a reason, or "busy" in another sweep."""

    run: Run
    state: State
    record: Record | None = None
    reason: str = ""


@dataclass(frozen=True)
class Worker:
    """Executes runs. An error in a run is returned as its outcome, not raised."""

    out: Path
    device: str
    threads: int | None  # None keeps torch's default: for a single job, and on a cluster
    wait: bool = False  # block while another process executes the same run
    watch: Watch | None = None  # called after every epoch; only for runs in this process

    def __call__(self, run: Run, number: int) -> Ended:
        """Execute a run, unless another process does; its number selects one of several GPUs."""
        with ONE_AT_A_TIME:
            folder = run.folder(self.out)
            try:
                files.writable(folder)
                with locked(folder / STARTED, self.wait) as free:
                    return self._run(run, number) if free else Ended(run, "busy")
            except Exception as error:  # an error of any kind must not stop other runs
                return Ended(run, "failed", reason=self._report(folder, error))

    def _run(self, run: Run, number: int) -> Ended:
        record = finished(run, self.out)
        if record is not None:  # another sweep has finished it since this one started
            return Ended(run, "skipped", record)
        (run.folder(self.out) / ERROR).unlink(missing_ok=True)
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        watch = self.watch
        progress = None if watch is None else lambda epoch: watch(Event(run, "running", epoch))
        return Ended(run, "done", execute(run, self.out, spread(self.device, number), progress))

    def _report(self, folder: Path, error: Exception) -> str:
        try:
            files.write_whole(folder / ERROR, traceback.format_exc().encode())
        except OSError:
            return f"{type(error).__name__}: {error}"
        return f"{type(error).__name__}: {error} (traceback in '{folder / ERROR}')"


# torch's number of threads and random state are per process, so a dask worker with several threads executes one run at a time.
ONE_AT_A_TIME = threading.Lock()


def spread(device: str, number: int) -> str:
    """The device of a run: runs take the GPUs in turn."""
    if device in {"auto", "cuda"} and torch.cuda.is_available():
        return f"cuda:{number % torch.cuda.device_count()}"
    return device


def clear_mark(run: Run, out: Path) -> bool:
    """Remove the mark of a process that was killed during the run; returns whether there was one."""
    mark = run.folder(out) / STARTED
    if not mark.exists():
        return False
    with locked(mark) as free:
        return free


def carry_out(runs: Sequence[Run], worker: Worker, jobs: int, cluster: str | None) -> Generator[Ended, None, None]:
    """The outcomes of runs as they end. First all runs that no other sweep is executing, then the others."""
    busy: list[Run] = []
    for end in on_cluster(runs, worker, cluster) if cluster else locally(runs, worker, jobs):
        if end.state == "busy":
            busy.append(end.run)
        yield end
    if busy:
        yield from carry_out(busy, replace(worker, wait=True), jobs, cluster)


def locally(runs: Sequence[Run], worker: Worker, jobs: int) -> Iterator[Ended]:
    """Outcomes on this machine, as runs end. One job runs in this process, several in a process each."""
    if jobs == 1:
        yield from (worker(run, 0) for run in runs)
        return
    numbered = {run.name: (run, number) for number, run in enumerate(runs)}
    broken = False

    def outcome(end: Ended) -> Ended:
        """A broken pool loses outcomes: a run that has its record by then was done in that pool."""
        return end._replace(state="done") if broken and end.state == "skipped" else end

    while numbered:
        try:
            for end in pooled(list(numbered.values()), worker, jobs):
                del numbered[end.run.name]
                yield outcome(end)
        except killed():
            broken = True
            # A killed process breaks the whole pool. Runs that had started are repeated one by one, so that only one fails.
            suspects = [name for name, (run, _) in numbered.items() if clear_mark(run, worker.out)]
            for name in suspects or list(numbered):
                run, number = numbered.pop(name)
                yield outcome(alone(run, number, worker))


def alone(run: Run, number: int, worker: Worker) -> Ended:
    """Execute one run in a process of its own; if the process is killed, only this run fails."""
    try:
        return next(pooled([(run, number)], worker, 2))
    except killed() as error:
        return Ended(run, "failed", reason=f"its process was killed: {' '.join(str(error).split())}")


def pooled(numbered: Sequence[tuple[Run, int]], worker: Worker, jobs: int) -> Iterator[Ended]:
    """Outcomes from joblib's processes: at least two, at most one per run. They end with this process."""
    from joblib import Parallel, delayed

    pool = Parallel(
        n_jobs=max(2, min(jobs, len(numbered))),
        backend="loky",
        return_as="generator_unordered",
        batch_size=1,
        initializer=end_with,
        initargs=(os.getpid(),),
    )
    ends: Iterator[Ended] = pool(delayed(worker)(run, number) for run, number in numbered)
    return ends


def killed() -> type[Exception]:
    """The exception that joblib raises when one of its processes was killed."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    error: type[Exception] = BrokenProcessPool
    return error


def on_cluster(runs: Sequence[Run], worker: Worker, address: str) -> Iterator[Ended]:
    """Outcomes on a dask cluster, as runs end. A run whose worker dies is repeated on another, from its checkpoint."""
    from distributed import Client, as_completed

    try:
        client: Any = Client(address, timeout="20s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise OSError(f"cannot reach a dask scheduler at '{address}': {error}. Start one with: dask scheduler") from error
    with client:
        futures = {client.submit(worker, run, number, pure=False): run for number, run in enumerate(runs)}
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            lost = future.exception()
            yield future.result() if lost is None else Ended(futures[future], "failed", reason=f"{type(lost).__name__}: {lost}")
