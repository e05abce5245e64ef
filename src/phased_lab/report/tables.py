"""Tables of results, each built once for docs/results.md (Markdown) and for the page (HTML)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from phased_lab.report.findings import leak_pairs
from phased_lab.report.looks import seeds_note, tests_words
from phased_lab.report.seeds import Group, Spread, groups, main, spread
from phased_lab.runs.descriptor import Claim, Experiment, Metric, Printed, Quantity, Row
from phased_lab.runs.record import Record
from phased_lab.table import Table

SPREAD = "mean ± standard deviation over seeds"


def results(shown: Sequence[Group], beside_paper: bool = True) -> Table:
    """A row per group: the result over five epochs and in the last one, updates, device, and the paper's number."""
    about, metric = shown[0].experiment, shown[0].experiment.metric
    head = ["condition", "network", "accuracy" if metric == "accuracy" else "mean squared error", "last epoch alone"]
    head += ["training loss", "updates", "seeds", "ran on", "paper"]
    rows = []
    for group in shown:
        last = spread(record.curve[-1].test for record in group.records).mean
        loss = spread(record.loss for record in group.records).mean
        seeds = f"{group.test.n}" + (f", and {group.test.lost} diverged" if group.test.lost else "")
        name = about.condition(group.condition, short=True)
        cells = [name, group.label, measured(group.test, metric), printed(Printed(last), metric)]
        cells += [f"{loss:.2g}", updated(group), seeds, devices(group), claimed(group.claim, metric)]
        rows.append(cells)
    columns = len(head) if beside_paper and any(row[-1] for row in rows) else len(head) - 1
    epochs = {group.claim.epochs for group in shown if group.claim is not None and columns == len(head)}
    read_off = f" The paper's numbers are read off its authors' plots, after {max(epochs)} epochs." if epochs else ""
    note = f"{SPREAD.capitalize()}, of {tests_words(shown)}. {seeds_note(shown)}.{read_off}"
    return Table(head[:columns], [row[:columns] for row in rows], "Numbers", note, grouped=True)


def beyond(section: Sequence[Group]) -> Table | None:
    """A row per group that is not in the paper's figure, or None without such groups."""
    shown = main(section)
    others = [group for group in section if group not in shown]
    return results(others, beside_paper=False)._replace(title="Further runs") if others else None


def paper_table(section: Sequence[Group]) -> Table | None:
    """Return the table of the descriptor for one section, or None without a table or without numbers.

    Each kind of network is a column, followed by a column with the paper's numbers if the paper gives any.
    """
    about, shown = section[0].experiment, main(section)
    kinds = [kind for kind in about.models if any(group.model == kind.name for group in shown)]
    found = []
    for row in about.table:
        place = row.study or about.name, row.condition
        of_row = [
            group for group in (section if row.study else shown) if place in ((group.study, group.condition), (group.study, ""))
        ]
        first = {group.model: group.records for group in reversed(of_row)}  # of each network the first variant
        spreads = [spread(number(row, about, record) for record in first.get(kind.name, ())) for kind in kinds]
        if any(each.n for each in spreads):
            found.append((row, spreads))
    if not found:
        return None
    headed = any(row.heading for row, _ in found)
    compared = {name for row, _ in found for name in row.paper}
    head = [*([about.headings] if headed else []), ""]
    for kind in kinds:
        head += [kind.label, *(["paper"] if kind.name in compared else [])]
    rows = []
    for row, spreads in found:
        cells = [*([row.heading] if headed else []), row.label]
        for kind, values in zip(kinds, spreads, strict=True):
            cells.append(measured(values, about.metric, row.quantity))
            cells += [printed(row.paper.get(kind.name), about.metric, row.quantity)] if kind.name in compared else []
        rows.append(cells)
    note = f"{SPREAD.capitalize()}. {seeds_note(shown)}."
    return Table(head, rows, "Beside the paper's numbers", note, grouped=headed)


def further_tests(section: Sequence[Group]) -> Table | None:
    """Return every further test of every group, or None without further tests."""
    about = section[0].experiment
    tests = list(dict.fromkeys(name for group in section for record in group.records for name in record.evaluations))
    rows = []
    for group in section:
        numbers = [spread(r.evaluations[name].test for r in group.records if name in r.evaluations) for name in tests]
        if any(each.n for each in numbers):
            cells = [measured(each, about.metric) for each in numbers]
            rows.append([about.condition(group.condition), group.label, *cells, str(len(group.records))])
    note = f"After training: {SPREAD}."
    return Table(["condition", "network", *tests, "seeds"], rows, "Further tests", note, grouped=True) if rows else None


def leaks(of: Sequence[Group]) -> Table:
    """A row for each pair of groups that differ only in the leak."""
    pairs = leak_pairs(of)
    values = sorted({leaking.settings["leak"] for _, leaking in pairs}) or [0.001]
    scales = {group.scale for group, _ in pairs}
    rows = []
    for group, leaking in pairs:
        what = [group.experiment.name, group.experiment.condition(group.condition, short=True)]
        what += [group.data_words] if group.data else []
        what += [f"leak {leaking.settings['leak']:g}"] if len(values) > 1 else []
        what += [f"{group.scale} scale"] if len(scales) > 1 else []
        one, other = group.test, leaking.test
        within = "one seed"
        if one.deviation is not None and other.deviation is not None:
            within = "yes" if abs(one.mean - other.mean) <= max(one.deviation, other.deviation) else "no"
        rows.append([", ".join(what), *(measured(side, group.experiment.metric) for side in (one, other)), within])
    with_leak = f"leak {values[0]:g}" if len(values) == 1 else "with the leak"
    note = (
        "Without a leak only open units are computed, in training too. The two runs of a row differ in no other setting. "
        "Within the spread: the difference is at most the larger standard deviation."
    )
    return Table(("task", "leak 0", with_leak, "within the spread"), rows, note=note)


def costs(records: Sequence[Record]) -> Table:
    """Time of runs over conditions and seeds, by experiment, model and device. A run made on two devices counts for both."""
    gathered: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for device in dict.fromkeys(record.device for record in records):
        for group in groups(record for record in records if record.device == device):
            gathered[f"{group.experiment.heading}, {group.scale} scale, {device}", group.label] += group.records
    rows = []
    for (where, label), runs in gathered.items():
        wall = spread(run.wall for run in runs)
        epochs = (spread(point.seconds for point in run.curve).values for run in runs)
        epoch = spread(float(np.median(each)) for each in epochs if each).mean
        rows.append([where, label, str(wall.n), *map(seconds, (epoch, wall.mean, sum(wall.values)))])
    note = "Means over the runs of all conditions; an epoch is the median of a run's epochs. Runs may have shared the machine."
    return Table(("where", "network", "runs", "an epoch", "a run", "all runs"), rows, note=note, grouped=True)


def runs(of: Iterable[Group]) -> Table:
    """Every run in the figures."""
    rows = []
    for group in of:
        for run in group.records:
            numbers = str(run.seed), printed(Printed(run.test), group.experiment.metric), seconds(run.wall)
            rows.append([run.name, run.scale, *numbers, run.device, run.date])
    return Table(("run", "scale", "seed", "test", "wall time", "machine", "date"), rows, f"Runs in the figures: {len(rows)}")


def number(row: Row, about: Experiment, record: Record) -> float:
    """Return the number of a record in a row, or nan if the record lacks it."""
    if not row.evaluation:
        points = {point.epoch: point.test for point in record.curve}
        return points.get(row.epoch or record.curve[-1].epoch, float("nan"))
    score = record.evaluations.get(row.evaluation)
    if score is None or (row.quantity == "updates" and not about.kind(record.model).recurrent):
        return float("nan")
    found = {
        "metric": score.test,
        "whole": score.whole,
        "updates": score.steps * (1.0 if score.updates is None else score.updates),
    }
    value = found[row.quantity]
    return float("nan") if value is None else value


def measured(values: Spread, metric: Metric, quantity: Quantity = "metric") -> str:
    """Mean and standard deviation over seeds, or "-" without a number."""
    return printed(Printed(values.mean, values.deviation), metric, quantity)


def printed(number: Printed | None, metric: Metric, quantity: Quantity = "metric") -> str:
    """Format a number with its deviation and unit, or "-" for None and nan. An accuracy is in percent."""
    if number is None or not np.isfinite(number.value):
        return "-"
    percent, count = metric == "accuracy", quantity == "updates"

    def words(value: float) -> str:
        if count:
            return f"{value:.0f}" if value >= 100 else f"{value:.1f}"
        return f"{100 * value:.2f}" if percent else f"{value:.2g}"

    # A count is often the same with every seed.
    side = "" if number.deviation is None or (count and not number.deviation) else f" ± {words(number.deviation)}"
    return f"{'> ' if number.above else ''}{words(number.value)}{side}{' %' if percent and not count else ''}"


def claimed(claim: Claim | None, metric: Metric) -> str:
    """The paper's number, or the range that it is in."""
    if claim is None:
        return ""
    unit, sign = (100, " %") if metric == "accuracy" else (1, "")
    low, high = (f"{unit * value:g}" for value in (claim.low, claim.high))
    return f"{low}{sign}" if low == high else f"{low} to {high}{sign}"


def updated(group: Group) -> str:
    """The mean share of updated units, or "-" for a network without steps."""
    if not group.kind.recurrent:
        return "-"
    return f"{100 * group.updates.mean:.1f} %" if group.gated else "every step"


def devices(group: Group) -> str:
    """The short names of the devices of its runs."""
    return " and ".join(sorted({record.device.removeprefix("NVIDIA ").removeprefix("AMD ") for record in group.records}))


def seconds(value: float) -> str:
    """A time in seconds, minutes or hours."""
    if value != value:
        return "unknown"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min")):
        if value < limit:
            return f"{value / size:.3g} {unit}"
    return f"{value / 3600:.3g} h"
