"""Benchmarks: cases to measure, a file of finished cases, and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from phased.files import destination, write_whole
from phased_lab.bench import MODULES
from phased_lab.bench.measure import machine, same_terms
from phased_lab.table import Table

Result = dict[str, Any]
"""The content of a file: `machine`, `plan`, and `cases` with their `part`, `case` and measurements."""


class Case(NamedTuple):
    """Something to measure. The name is unique within the part of the benchmark. `measure` returns fields for JSON."""

    part: str
    name: str
    measure: Callable[[], Mapping[str, Any]]


class Row(NamedTuple):
    """A row of a table: a finished case, its label, and the contestant that is compared with a peer."""

    case: Mapping[str, Any]
    label: str
    own: str = ""
    peer: str = "nn.LSTM"

    @property
    def measured(self) -> Mapping[str, Any]:
        """The seconds or bytes of the contestants."""
        found: Mapping[str, Any] = self.case.get("seconds") or self.case["bytes"]
        return found

    def median(self, name: str = "") -> float:
        """Return the median seconds of a contestant or its bytes."""
        found = self.measured[name or self.own]
        return float(found[0] if isinstance(found, Sequence) else found)

    def value(self, name: str = "", digits: int = 1) -> str:
        """Format the milliseconds or megabytes of a contestant. The text is empty if the contestant was not measured."""
        if (name or self.own) not in self.measured:
            return ""
        return f"{self.median(name) / 1e6:,.0f} MB" if "bytes" in self.case else f"{1e3 * self.median(name):.{digits}f} ms"

    def speed_up(self, own: str = "", peer: str = "", digits: int = 1) -> str:
        """Divide the time of the peer by the time of the contestant. The text is empty if one was not measured."""
        own, peer = own or self.own, peer or self.peer
        if not self.measured.keys() >= {own, peer}:
            return ""
        return f"{self.median(peer) / self.median(own):,.{digits}f}x" + (" less" if "bytes" in self.case else "")

    def speed_up_of_first(self, digits: int = 1) -> str:
        """Divide the time of a row of `contestants` by the time of the first row."""
        return "" if self.own == self.peer else self.speed_up(self.peer, self.own, digits)


Cases = Sequence[Mapping[str, Any]]
"""Finished cases."""
Rows = Callable[[Cases], Iterable[Any]]
"""The rows of a table of finished cases."""
Columns = Mapping[str, Callable[[Any], str]]
"""Functions from a row to the text of a cell, by the head of the column. A head may contain fields of the plan in braces."""


class Sheet(NamedTuple):
    """Rows and columns of a table of finished cases."""

    rows: Rows
    columns: Columns

    def table(self, result: Result) -> Table:
        """Make the table of a result."""
        cells = [[column(row) for column in self.columns.values()] for row in self.rows(result["cases"])]
        return Table([head.format_map(result["plan"]) for head in self.columns], cells)


def each_case(*parts: str, label: str = "{case}") -> Rows:
    """A row for each case of these parts, with its first contestant. The label has fields of the case in braces."""
    return lambda cases: (
        Row(case, label.format_map(case), next(iter(case.get("seconds") or case["bytes"])))
        for part in parts
        for case in cases
        if case["part"] == part
    )


def contestants(*parts: str) -> Rows:
    """A row for each contestant of each case of these parts. Its peer is the first contestant of the case."""
    return lambda cases: (Row(row.case, name, name, row.own) for row in each_case(*parts)(cases) for name in row.measured)


def plain(*parts: str) -> Sheet:
    """A table of parts that need no special columns."""
    columns: Columns = {
        "also measured": lambda row: f"{row.case['part']}, {row.case['case']}: {row.own}",
        "ms or MB": lambda row: f"{row.median() * (1e-6 if 'bytes' in row.case else 1e3):.4g}",
        "speed-up of the first row": lambda row: "" if "bytes" in row.case else row.speed_up_of_first(),
    }
    return Sheet(contestants(*parts), columns)


def texts(*heads: str) -> Columns:
    """The columns of rows that are tuples of texts."""
    return {head: itemgetter(place) for place, head in enumerate(heads)}


@dataclass(frozen=True)
class Benchmark:
    """Cases and tables.

    Args:
        cases: yields the cases. The defaults of the arguments are the plan. Arguments that are annotated with an option become
            options of the command.
        sheets: the tables.
        quick: changes of the plan for a first look.
        gpu: changes of the plan on a GPU. With None the benchmark runs on the CPU.
        threads: number of threads of torch. With None the default of torch.
        backend: the backend that must be available.
        choices: arguments that choose cases and do not change them. A file continues with another choice.
    """

    cases: Callable[..., Iterable[Case]]
    sheets: tuple[Sheet, ...]
    quick: Mapping[str, Any] = field(default_factory=dict)
    gpu: Mapping[str, Any] | None = None
    threads: int | None = None
    backend: str | None = None
    choices: Sequence[str] = ()

    def plan(self, quick: bool = False, **options: Any) -> dict[str, Any]:
        """The arguments of `cases`."""
        defaults = {each.name: each.default for each in signature(self.cases).parameters.values()}
        return {**defaults, **(self.gpu or {} if self.on_gpu else {}), **options, **(self.quick if quick else {})}

    def settings(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the plan that measurements depend on, as it is in the file."""
        kept = {name: value for name, value in plan.items() if not isinstance(value, Path | None) and name not in self.choices}
        found: dict[str, Any] = json.loads(json.dumps(kept))
        return found

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU is used."""
        return self.gpu is not None and torch.cuda.is_available()

    def run(self, plan: Mapping[str, Any], file: Path | None = None, show: Callable[[str], None] = lambda text: None) -> Result:
        """Measure the cases that are missing in the file, and write the file after each case. `show` receives a line per case."""
        with same_terms(self.threads):
            result: Result = {"machine": machine(self.on_gpu), "plan": self.settings(plan), "cases": []}
            kept = file if file is not None and destination(file)[1] else None  # a device or a FIFO is written once, at the end
            if kept is not None and kept.exists():
                result = continued(kept, result)
            finished = {(case["part"], case["case"]) for case in result["cases"]}
            cases = [case for case in self.cases(**plan) if (case.part, case.name) not in finished]
            for case, measured in measure(cases, plan.get("jobs", 1), show):
                result["cases"].append({"part": case.part, "case": case.name, **measured})
                if kept is not None:
                    write(kept, result)
        if file is not None and kept is None:
            write(file, result)
        return result

    def tables(self, result: Result) -> list[Table]:
        """The tables of a result."""
        return [table for table in (sheet.table(result) for sheet in self.sheets) if table.rows]


def measure(cases: Sequence[Case], jobs: int, show: Callable[[str], None]) -> Iterator[tuple[Case, Mapping[str, Any]]]:
    """Measure cases one after another in this thread, or `jobs` cases at once in other threads."""

    def measured(number: int, case: Case) -> Mapping[str, Any]:
        show(f"{number} of {len(cases)}: {case.part}, {case.name}")
        return case.measure()

    if jobs == 1:
        for number, case in enumerate(cases, 1):
            yield case, measured(number, case)
        return
    failed: BaseException | None = None
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(measured, number, case): case for number, case in enumerate(cases, 1)}
        try:
            for done in as_completed(futures):
                if done.cancelled():
                    continue
                if (error := done.exception()) is None:
                    yield futures[done], done.result()
                elif failed is None:  # other threads finish their cases
                    failed = error
                    pool.shutdown(wait=False, cancel_futures=True)
        finally:
            pool.shutdown(cancel_futures=True)
    if failed is not None:
        raise failed


def benchmark(*sheets: Sheet, **settings: Any) -> Callable[[Callable[..., Iterable[Case]]], Benchmark]:
    """Make a benchmark of a function that yields its cases."""
    return lambda cases: Benchmark(cases, sheets, **settings)


def load(name: str) -> Benchmark:
    """The benchmark of this name."""
    found: Benchmark = getattr(import_module(f"phased_lab.bench.{MODULES.get(name, name)}"), name)
    return found


def write(file: Path, result: Result) -> None:
    """Write a result, atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, (json.dumps(result, indent=1) + "\n").encode())


def read(file: Path) -> Result:
    """Read a result."""
    try:
        found: Result = json.loads(file.read_bytes())
        return {"machine": dict(found["machine"]), "plan": dict(found["plan"]), "cases": list(found["cases"])}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"'{file}' must be a file of `phased bench`, and is not ({error!r}). Delete it, or name another file."
        ) from error


def continued(file: Path, new: Result) -> Result:
    """Return the result in the file. Raises ValueError if the machine or the plan differs from the new result."""
    found = read(file)
    old, now = ({**each["machine"], **each["plan"]} for each in (found, new))
    for name in (old.keys() | now.keys()) - {"command", "date"}:
        if old.get(name) != now.get(name):
            raise ValueError(
                f"'{file}' has measurements with {name} {old.get(name)}, which cannot go on with {name} {now.get(name)}. "
                f"Delete it to measure everything again, or name another file."
            )
    return found
