"""Sweeps: many runs, on the cores of this machine by joblib or on a dask cluster. Finished runs are skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from phased import check, files
from phased.learn.device import check_device
from phased.machine import cores
from phased_lab.runs import catalogue
from phased_lab.runs.folder import Reading, read_file
from phased_lab.runs.record import Record
from phased_lab.runs.run import SCALES, NoRecord, Run, compare, finished, write
from phased_lab.runs.watch import watching
from phased_lab.runs.workers import Event, Watch, Worker, carry_out, clear_mark

MOST_SEEDS, LISTED = 10_000, 100


@dataclass
class Summary:
    """The runs of a sweep by their outcome; failed ones by name, with the reason and the file of the traceback.

    `records` has the records of done and skipped runs by name.
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
    """The runs of a study; `only` selects runs by name, with shell wildcards, and `options` are those of the study."""
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
            raise ValueError(f"'{name}' must be run without the option '{option}', which it does not support. {others}")
        if study.options[option].values:
            check.choice(option, value, study.options[option].values)
    runs = study.runs(scale, numbers, **(options or {}))
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
    progress: Watch | None = None,
) -> Summary:
    """Run what has no record yet: `jobs` runs at a time on this machine, or on the dask cluster at this address.

    A run that fails writes a traceback beside its checkpoint, and the other runs continue. A run also fails if its record's file
    has other content, which is not changed. Runs that another sweep is executing come last, and are run only if they have no
    record when that sweep ends. No run starts if the folder cannot be written to or has records with other settings.
    """
    check.size("jobs", jobs)
    if cluster is None:
        check_device(device)
    names = Counter(run.name for run in runs)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"the names of runs must be different from each other, got {', '.join(twice)} twice. Use other tags.")
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
        clear_mark(run, out)  # of an earlier sweep, which must not be mistaken for one of this sweep
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
                if record is not None and not run.file(out).exists():  # the worker does not share this folder
                    write(run.file(out), record)
                summary.done.append(run)
            if record is not None:
                summary.records[run.name] = record
            report_end(Event(run, state, message=reason))
    return summary


def gathered_records(runs: Sequence[Run], out: Path) -> dict[str, Record]:
    """The records of these runs in the files of their studies, by name; a ValueError if one has other settings."""
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
            except ValueError as error:  # another record of the same name may have the right settings
                others[record.name] = error
        for name in others.keys() - found.keys():
            raise others[name]
    return found
