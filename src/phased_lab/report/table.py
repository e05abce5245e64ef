"""Tables of the paper's form and tables of further tests, with a cell for each number; the page and the documents show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phased_lab.report.groups import Group, Spread, main, spread
from phased_lab.runs.descriptor import Experiment, Metric, Printed, Quantity, Row
from phased_lab.runs.record import Record


class Cells(NamedTuple):
    """A table as text: its head, for each row the heading of its row group and its cells, and what the headings name."""

    head: list[str]
    rows: list[tuple[str, list[str]]]
    headings: str = "condition"


def paper_table(section: Sequence[Group]) -> Cells | None:
    """The table that the descriptor has, for the groups of one section; None if it has none, or if no group has its numbers.

    Each kind of network has a column, followed by one with the paper's numbers if there are any.
    """
    about = section[0].experiment
    shown = main(section)
    kinds = [kind for kind in about.models if any(group.model == kind.name for group in shown)]
    rows = []
    for row in about.table:
        runs = [group for group in (section if row.study else shown) if _belongs(group, row)]
        spreads = {kind.name: spread(number(row, about, r) for r in _records(runs, kind.name)) for kind in kinds}
        if any(each.n for each in spreads.values()):
            rows.append((row, spreads))
    if not rows:
        return None
    head, compared = [""], [kind.name for kind in kinds if any(kind.name in row.paper for row, _ in rows)]
    for kind in kinds:
        head += [kind.label, *(["paper"] if kind.name in compared else [])]
    cells = []
    for row, spreads in rows:
        line = [row.label]
        for kind in kinds:
            line.append(measured(spreads[kind.name], about.metric, row.quantity))
            line += [printed(row.paper.get(kind.name), about.metric, row.quantity)] if kind.name in compared else []
        cells.append((row.heading, line))
    return Cells(head, cells, about.headings)


def evaluations_table(section: Sequence[Group]) -> Cells | None:
    """Every further test of every group; None if there is none."""
    about = section[0].experiment
    names = list(dict.fromkeys(name for group in section for record in group.records for name in record.evaluations))
    if not names:
        return None
    rows = []
    for group in section:
        numbers = [spread(r.evaluations[name].test for r in group.records if name in r.evaluations) for name in names]
        if any(each.n for each in numbers):
            cells = [measured(each, about.metric) for each in numbers]
            rows.append((about.condition(group.condition), [group.label, *cells, str(len(group.records))]))
    return Cells(["network", *names, "seeds"], rows)


def number(row: Row, about: Experiment, record: Record) -> float:
    """The number of a record in a row; nan if it has none."""
    if not row.evaluation:
        points = {point.epoch: point.test for point in record.curve}
        return points.get(row.epoch or record.curve[-1].epoch, float("nan"))
    score = record.evaluations.get(row.evaluation)
    if score is None:
        return float("nan")
    if row.quantity == "metric":
        return score.test
    if row.quantity == "whole":
        return float("nan") if score.whole is None else score.whole
    if not about.recurrent(record.model):
        return float("nan")
    return score.steps * (1.0 if score.updates is None else score.updates)


def measured(values: Spread, metric: Metric, quantity: Quantity = "metric") -> str:
    """Mean and standard deviation over seeds; "-" without a number."""
    return printed(Printed(values.mean, values.deviation) if values.n else None, metric, quantity)


def printed(number: Printed | None, metric: Metric, quantity: Quantity = "metric") -> str:
    """A number and its deviation, if it has one."""
    if number is None:
        return "-"
    above = "> " if number.above else ""
    form = _updates if quantity == "updates" else _percent if metric == "accuracy" else _error
    unit = " %" if form is _percent else ""
    if not number.deviation:  # none, or 0: a count that is the same with every seed
        return f"{above}{form(number.value)}{unit}"
    return f"{above}{form(number.value)} ± {form(number.deviation)}{unit}"


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _error(value: float) -> str:
    return f"{value:.2g}"


def _updates(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _belongs(group: Group, row: Row) -> bool:
    """Whether a group is of the study and the condition of a row."""
    return group.study == (row.study or group.experiment.name) and row.condition in ("", group.condition)


def _records(groups: Sequence[Group], model: str) -> list[Record]:
    """The records of one network; of its variants those of the first."""
    return next((list(group.records) for group in groups if group.model == model), [])
