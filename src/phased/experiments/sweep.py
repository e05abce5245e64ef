"""Many runs: over the cores of this machine by joblib, or over the workers of a dask cluster; finished ones are not run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from phased import check, files
from phased.experiments import catalogue
from phased.experiments.folder import Reading, read_file
from phased.experiments.record import Record
from phased.experiments.run import SCALES, NoRecord, Run, compare, finished, write
from phased.experiments.watch import watching
from phased.experiments.workers import Event, Watch, Worker, carry_out, clear_mark
from phased.learn.device import check_device
from phased.machine import cores

MOST_SEEDS, LISTED = 10_000, 100


@dataclass
class Summary:
    """The runs of a sweep by how they ended; a failed one with the reason and the file that has its traceback.

    `records` has those of done and skipped runs by name.
    """

    done: list[Run] = field(default_factory=list)
    skipped: list[Run] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)


def runs_of(
    name: str,
    scale: str = "paper",
    seeds: Iterable[int] = range(5),
    only: str = "*",
    options: Mapping[str, str] | None = None,
) -> list[Run]:
    """The runs of a study; `only` picks runs by their names, as a shell would, and `options` are the study's own."""
    known = catalogue.studies()
    check.choice("experiment", name, list(known))
    check.choice("scale", scale, SCALES)
    numbers = list(islice(seeds, MOST_SEEDS + 1))
    if len(numbers) > MOST_SEEDS:
        raise ValueError(f"seeds must be at most {MOST_SEEDS}, got more. Choose fewer.")
    if not numbers:
        raise ValueError("seeds must be at least one, got none.")
    if min(numbers) < 0:
        raise ValueError(f"seeds must be whole numbers from 0 up, got {numbers!r}.")
    study = known[name]
    for option, value in (options or {}).items():
        if option not in study.options:
            others = f"Its options are: {', '.join(study.options)}." if study.options else "It has no options of its own."
            raise ValueError(f"'{name}' must be run without the option '{option}', which it does not have. {others}")
        if study.options[option].values:
            check.choice(option, value, study.options[option].values)
    runs = study.runs(scale, numbers, **(options or {}))
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
    """Run what has no record yet: `jobs` at a time here, or on the dask cluster at this address.

    A run that fails leaves a traceback beside its checkpoint, and the others go on; so they do if a file that is no record lies
    where a run's should: it is left as it is. A run that another sweep is doing comes last, and is done only if it has no record
    when that one ends. Nothing starts if the folder cannot be written to or has records of other settings.
    """
    check.size("jobs", jobs)
    if cluster is None:
        check_device(device)
    report = progress or (lambda event: None)
    for place in {run.file(out).parent for run in runs}:
        files.writable(place)
    summary = Summary()
    waiting: list[Run] = []
    gathered = gathered_records(runs, out)
    for run in runs:
        try:
            record = gathered.get(run.name) or finished(run, out)
            (waiting if record is None else summary.skipped).append(run)
            if record is not None:
                summary.records[run.name] = record
        except NoRecord as error:
            summary.failed[run.name] = str(error)
            report(Event(run, "failed", message=str(error)))
    for run in summary.skipped:
        report(Event(run, "skipped"))
    for run in waiting:
        clear_mark(run, out)  # of an earlier sweep: it must not be taken for one of this sweep
    if not waiting:
        return summary
    here = jobs == 1 and cluster is None
    threads = max(1, cores() // jobs) if jobs > 1 and not cluster else None
    worker = Worker(out.resolve(), device, threads, watch=report if here else None)
    news = nullcontext(report) if here else watching(waiting, out, report)
    with news as report_end, closing(carry_out(waiting, worker, jobs, cluster)) as ends:
        for run, state, record, reason in ends:
            if state == "failed":
                summary.failed[run.name] = reason
            elif state == "skipped":
                summary.skipped.append(run)
            elif state == "done":
                if record is not None and not run.file(out).exists():  # a worker elsewhere, which does not share our folder
                    write(run.file(out), record)
                summary.done.append(run)
            if record is not None:
                summary.records[run.name] = record
            report_end(Event(run, state, message=reason))
    return summary


def gathered_records(runs: Sequence[Run], out: Path) -> dict[str, Record]:
    """By name, the records of these runs that lie in their studies' files; a ValueError for one of other settings."""
    found: dict[str, Record] = {}
    wanted = {run.name: run for run in runs}
    for path in {run.study_file(out) for run in runs}:
        if not path.exists():
            continue
        reading = Reading([], [])
        read_file(path, reading)
        others: dict[str, ValueError] = {}
        for record in reading.records:
            run = wanted.get(record.name)
            if run is None or record.scale != run.scale:
                continue
            try:
                compare(run, record, path)
                found[record.name] = record
            except ValueError as error:  # another record of the name may be the one
                others[record.name] = error
        for name in others.keys() - found.keys():
            raise others[name]
    return found
