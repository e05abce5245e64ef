"""Where runs are done: in this process, in several of this machine by joblib, or by the workers of a dask cluster."""

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
from phased.experiments.lock import locked
from phased.experiments.orphan import end_with
from phased.experiments.record import Record
from phased.experiments.run import Run, execute, finished
from phased.learn.store import Epoch

ERROR, STARTED = "error.txt", "started"


State = Literal["skipped", "busy", "running", "done", "failed"]


class Event(NamedTuple):
    """News of a run: an epoch is over ("running"), another sweep does it ("busy"), or its end; `message` says why it failed."""

    run: Run
    state: State
    epoch: Epoch | None = None
    message: str = ""


Watch = Callable[[Event], None]


class Ended(NamedTuple):
    """How a run ended: "done" with its record, "failed" with a reason, "skipped": it had one, "busy": in another sweep."""

    run: Run
    state: State
    record: Record | None = None
    reason: str = ""


@dataclass(frozen=True)
class Worker:
    """What a worker has to know besides the run. It takes a run and always returns; only a kill stops it."""

    out: Path
    device: str
    threads: int | None  # None leaves torch as it is: alone it has the machine, and a cluster knows its own machines
    wait: bool = False  # for another process that does the same run, until it ends
    watch: Watch | None = None  # called after every epoch; for runs in this process only

    def __call__(self, run: Run, number: int) -> Ended:
        """Run it, unless another process does; the run's number picks one of several GPUs."""
        with ONE_AT_A_TIME:
            folder = run.folder(self.out)
            try:
                files.writable(folder)
                with locked(folder / STARTED, self.wait) as free:
                    return self._run(run, number) if free else Ended(run, "busy")
            except Exception as error:  # whatever it is, it must not take other runs down
                return Ended(run, "failed", reason=self._report(folder, error))

    def _run(self, run: Run, number: int) -> Ended:
        record = finished(run, self.out)
        if record is not None:  # another sweep has done it since this one looked
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


# Threads, and torch's random numbers, belong to a whole process: a dask worker with several threads runs one after another.
ONE_AT_A_TIME = threading.Lock()


def spread(device: str, number: int) -> str:
    """Of several GPUs, each run takes the next; on one, all share it."""
    if device in {"auto", "cuda"} and torch.cuda.is_available():
        return f"cuda:{number % torch.cuda.device_count()}"
    return device


def clear_mark(run: Run, out: Path) -> bool:
    """Remove the mark that a process left which was killed during the run; whether there was one."""
    mark = run.folder(out) / STARTED
    if not mark.exists():
        return False
    with locked(mark) as free:
        return free


def carry_out(runs: Sequence[Run], worker: Worker, jobs: int, cluster: str | None) -> Generator[Ended, None, None]:
    """The ends of runs in their order, here or on a cluster. First all runs that no other sweep is doing, then the rest."""
    busy: list[Run] = []
    for end in on_cluster(runs, worker, cluster) if cluster else locally(runs, worker, jobs):
        if end.state == "busy":
            busy.append(end.run)
        yield end
    if busy:
        yield from carry_out(busy, replace(worker, wait=True), jobs, cluster)


def locally(runs: Sequence[Run], worker: Worker, jobs: int) -> Iterator[Ended]:
    """On this machine, in the order they end. One job needs no other process; several have one each."""
    if jobs == 1:
        yield from (worker(run, 0) for run in runs)
        return
    numbered = {run.name: (run, number) for number, run in enumerate(runs)}
    while numbered:
        try:
            for end in pooled(list(numbered.values()), worker, jobs):
                del numbered[end.run.name]
                yield end
        except killed():
            # A killed process takes its pool along. What was at work is now run alone: the culprit then dies by itself.
            suspects = [name for name, (run, _) in numbered.items() if clear_mark(run, worker.out)]
            for name in suspects or list(numbered):
                run, number = numbered.pop(name)
                yield alone(run, number, worker)


def alone(run: Run, number: int, worker: Worker) -> Ended:
    """One run in a process of its own; if that is killed, this run has failed and nothing else."""
    try:
        return next(pooled([(run, number)], worker, 2))
    except killed() as error:
        return Ended(run, "failed", reason=f"its process was killed: {' '.join(str(error).split())}")


def pooled(numbered: Sequence[tuple[Run, int]], worker: Worker, jobs: int) -> Iterator[Ended]:
    """Through joblib's processes, at least two and no more than there are runs. They end with this process."""
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
    """What joblib raises when one of its processes is gone."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    error: type[Exception] = BrokenProcessPool
    return error


def on_cluster(runs: Sequence[Run], worker: Worker, address: str) -> Iterator[Ended]:
    """On a dask cluster, in the order they end. A run whose worker dies is tried on others, and goes on from its checkpoint."""
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
