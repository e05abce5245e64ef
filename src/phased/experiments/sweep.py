"""Many runs: over the cores of this machine by joblib, or over the workers of a dask cluster; finished ones are not run again."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import torch

from phased import check, checkpoint
from phased.experiments import adding, frequency, superimposed
from phased.experiments.run import SCALES, NoResult, Run, execute, finished, write_line
from phased.experiments.watch import Event, Watch, one_by_one, watching
from phased.machine import cores
from phased.train import check_device


class Experiment(NamedTuple):
    """What an experiment shows, and its runs at a scale, for some seeds."""

    about: str
    runs: Callable[..., list[Run]]


EXPERIMENTS = {
    "frequency": Experiment("Figure 3: waves told by their period, under three ways of sampling", frequency.runs),
    "superimposed": Experiment("Figure 4a: two waves at once", superimposed.runs),
    "adding": Experiment("Figure 4b: a long memory, and what longer periods do for it", adding.runs),
    "sparsity": Experiment("accuracy against updates: open ratios fixed, or learned at a price", frequency.sparsity),
    "ranges": Experiment("Figure 3 with periods that start as the paper's text has it", frequency.ranges),
    "peepholes": Experiment("Figure 3 with peepholes, as the authors' code has them", frequency.peepholes),
    "weights": Experiment("Figure 3 with weights drawn at first as in the authors' code", frequency.weights),
    "normalisation": Experiment("the BN-LSTM that normalises the input-to-hidden term", frequency.normalisation),
}
ERROR, STARTED = "error.txt", "started"


class Ended(NamedTuple):
    """How a run ended: with its line, or with a reason."""

    run: Run
    line: dict[str, Any] | None
    reason: str = ""


@dataclass
class Summary:
    """The runs of a sweep by how they ended; a failed one with the reason and the file that has its traceback."""

    done: list[Run] = field(default_factory=list)
    skipped: list[Run] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def run_experiment(
    name: str,
    scale: str = "paper",
    seeds: Iterable[int] = range(5),
    out: Path = Path("results"),
    jobs: int = 1,
    cluster: str | None = None,
    device: str = "auto",
    progress: Watch | None = None,
    periods: str | None = None,
    only: str = "*",
) -> Summary:
    """Run what is missing of an experiment, by its name; `only` picks runs by their names, as a shell would."""
    return sweep(runs_of(name, scale, seeds, periods, only), out, jobs, cluster, device, progress)


def runs_of(
    name: str, scale: str = "paper", seeds: Iterable[int] = range(5), periods: str | None = None, only: str = "*"
) -> list[Run]:
    """The runs of an experiment."""
    check.choice("experiment", name, list(EXPERIMENTS))
    check.choice("scale", scale, SCALES)
    numbers = list(seeds)
    if not numbers:
        raise ValueError("seeds must be at least one, got none.")
    if min(numbers) < 0:
        raise ValueError(f"seeds must be whole numbers from 0 up, got {numbers!r}.")
    options = {}
    if periods is not None:
        if name == "adding":
            raise ValueError("periods must be None for 'adding': it has no waves.")
        check.choice("periods", periods, ("paper", "authors"))
        options["periods"] = periods
    runs = EXPERIMENTS[name].runs(scale, numbers, **options)
    chosen = [run for run in runs if fnmatch(run.name, only)]
    if not chosen:
        raise ValueError(f"only must match a run, got {only!r}. The runs are:\n" + "\n".join(run.name for run in runs))
    return chosen


def sweep(
    runs: Sequence[Run],
    out: Path,
    jobs: int = 1,
    cluster: str | None = None,
    device: str = "auto",
    progress: Watch | None = None,
) -> Summary:
    """Run what has no result yet: `jobs` at a time here, or on the dask cluster at this address.

    A run that fails leaves a traceback beside its checkpoint, and the others go on; so they do if a file that is no result lies
    where a run's should: it is left as it is. Nothing starts if the folder cannot be written to or has results of other settings.
    """
    check.size("jobs", jobs)
    if cluster is None:
        check_device(device)
    tell = one_by_one(progress or (lambda event: None))
    for folder in {run.result(out).parent for run in runs}:
        checkpoint.writable(folder)
    summary = Summary()
    waiting: list[Run] = []
    for run in runs:
        try:
            (summary.skipped if finished(run, out) else waiting).append(run)
        except NoResult as error:
            summary.failed[run.name] = str(error)
            tell(Event(run, "failed", message=str(error)))
    for run in summary.skipped:
        tell(Event(run, "skipped"))
    for run in waiting:
        (run.folder(out) / STARTED).unlink(missing_ok=True)
    if not waiting:
        return summary
    work = Work(out.resolve(), device, max(1, cores() // jobs) if jobs > 1 and not cluster else None)
    ends = on_cluster(waiting, work, cluster) if cluster else locally(waiting, work, jobs)
    with watching(waiting, out, tell) as look:
        for run, line, reason in ends:
            look()  # its last epoch before its end
            if line is None:
                summary.failed[run.name] = reason
                tell(Event(run, "failed", message=reason))
            else:
                if not run.result(out).exists():  # a worker elsewhere, which does not share our folder
                    write_line(run.result(out), line)
                summary.done.append(run)
                tell(Event(run, "done"))
    return summary


@dataclass(frozen=True)
class Work:
    """What a worker has to know besides the run. It takes a run and always returns; only a kill stops it."""

    out: Path
    device: str
    threads: int | None  # None leaves torch as it is: alone it has the machine, and a cluster knows its own machines

    def __call__(self, run: Run, number: int) -> Ended:
        """Run it; the run's number picks one of several GPUs."""
        with ONE_AT_A_TIME:
            folder = run.folder(self.out)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / STARTED).touch()
                (folder / ERROR).unlink(missing_ok=True)
                if self.threads is not None:
                    torch.set_num_threads(self.threads)
                line = execute(run, self.out, spread(self.device, number))
            except Exception as error:  # whatever it is, it must not take other runs down
                return Ended(run, None, self._report(folder, error))
            finally:  # a kill is all that leaves it behind
                (folder / STARTED).unlink(missing_ok=True)
            return Ended(run, line)

    def _report(self, folder: Path, error: Exception) -> str:
        try:
            (folder / ERROR).write_text(traceback.format_exc())
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


def locally(runs: Sequence[Run], work: Work, jobs: int) -> Iterator[Ended]:
    """On this machine, in the order they end. One job needs no other process; several have one each."""
    if jobs == 1:
        yield from (work(run, 0) for run in runs)
        return
    numbered = {run.name: (run, number) for number, run in enumerate(runs)}
    while numbered:
        try:
            for end in pooled(list(numbered.values()), work, jobs):
                del numbered[end.run.name]
                yield end
        except killed():
            # A killed process takes its pool along. Whoever was at work is now run alone: the culprit then dies by itself.
            suspects = [name for name, (run, _) in numbered.items() if (run.folder(work.out) / STARTED).exists()]
            for name in suspects or list(numbered):
                run, number = numbered.pop(name)
                yield alone(run, number, work)


def alone(run: Run, number: int, work: Work) -> Ended:
    """One run in a process of its own; if that is killed, this run has failed and nothing else."""
    try:
        return next(pooled([(run, number)], work, 2))
    except killed() as error:
        return Ended(run, None, f"its process was killed: {' '.join(str(error).split())}")


def pooled(numbered: Sequence[tuple[Run, int]], work: Work, jobs: int) -> Iterator[Ended]:
    """Through joblib's processes."""
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    ends: Iterator[Ended] = pool(delayed(work)(run, number) for run, number in numbered)
    return ends


def killed() -> type[Exception]:
    """What joblib raises when one of its processes is gone."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    error: type[Exception] = BrokenProcessPool
    return error


def on_cluster(runs: Sequence[Run], work: Work, address: str) -> Iterator[Ended]:
    """On a dask cluster, in the order they end. A run whose worker dies is tried on others, and goes on from its checkpoint."""
    from distributed import Client, as_completed

    try:
        client: Any = Client(address, timeout="20s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise OSError(f"cannot reach a dask scheduler at '{address}': {error}. Start one with: dask scheduler") from error
    with client:
        futures = {client.submit(work, run, number, pure=False): run for number, run in enumerate(runs)}
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            lost = future.exception()
            yield future.result() if lost is None else Ended(futures[future], None, f"{type(lost).__name__}: {lost}")
