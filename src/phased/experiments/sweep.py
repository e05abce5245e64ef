"""Many runs: over the cores of this machine by joblib, or over the workers of a dask cluster; finished ones are not run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from phased import check, files
from phased.experiments import adding, frequency, superimposed
from phased.experiments.run import SCALES, NoResult, Run, finished, write_line
from phased.experiments.watch import Event, Watch, one_by_one, watching
from phased.experiments.workers import Work, carry_out, clear_mark
from phased.machine import cores
from phased.train import check_device


class Experiment(NamedTuple):
    """What an experiment shows, and its runs at a scale, for some seeds."""

    about: str
    runs: Callable[..., list[Run]]


EXPERIMENTS = {
    "frequency": Experiment("Figure 3: waves classified by their period, under three ways of sampling", frequency.runs),
    "superimposed": Experiment("Figure 4a: two waves at once", superimposed.runs),
    "adding": Experiment("Figure 4b: a long memory, and what longer periods do for it", adding.runs),
    "sparsity": Experiment("accuracy against updates: open ratios fixed, or learned at a price", frequency.sparsity),
    "ranges": Experiment("Figure 3 with periods that start as the paper's text has it", frequency.ranges),
    "peepholes": Experiment("Figure 3 with peepholes, as the authors' code has them", frequency.peepholes),
    "weights": Experiment("Figure 3 with weights drawn at first as in the authors' code", frequency.weights),
    "normalisation": Experiment("the BN-LSTM that normalises the input-to-hidden term", frequency.normalisation),
}
MOST_SEEDS, LISTED = 10_000, 100


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
    numbers = list(islice(seeds, MOST_SEEDS + 1))
    if len(numbers) > MOST_SEEDS:
        raise ValueError(f"seeds must be at most {MOST_SEEDS}, got more. Choose fewer.")
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
        names = [run.name for run in runs[:LISTED]] + ["..."] * (len(runs) > LISTED)
        raise ValueError(f"only must match a run, got {only!r}. The runs are:\n" + "\n".join(names))
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
    where a run's should: it is left as it is. A run that another sweep is doing comes last, and is done only if it has no result
    when that one ends. Nothing starts if the folder cannot be written to or has results of other settings.
    """
    check.size("jobs", jobs)
    if cluster is None:
        check_device(device)
    tell = one_by_one(progress or (lambda event: None))
    for folder in {run.result(out).parent for run in runs}:
        files.writable(folder)
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
        clear_mark(run, out)  # of an earlier sweep: it must not be taken for one of this sweep
    if not waiting:
        return summary
    work = Work(out.resolve(), device, max(1, cores() // jobs) if jobs > 1 and not cluster else None)
    with watching(waiting, out, tell) as look, closing(carry_out(waiting, work, jobs, cluster)) as ends:
        for run, state, line, reason in ends:
            look()  # its last epoch before its end
            if state == "failed":
                summary.failed[run.name] = reason
            elif state == "skipped":
                summary.skipped.append(run)
            elif state == "done":
                if line is not None and not run.result(out).exists():  # a worker elsewhere, which does not share our folder
                    write_line(run.result(out), line)
                summary.done.append(run)
            tell(Event(run, state, message=reason))
    return summary
