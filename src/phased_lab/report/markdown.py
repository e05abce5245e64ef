"""The tables of docs/results.md, from the records: `python -m phased_lab.report.markdown results`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from phased_lab.report.findings import leak_pairs
from phased_lab.report.groups import Group, Spread, groups, keys, main, sections, spread
from phased_lab.report.table import Cells, evaluations_table, paper_table
from phased_lab.runs.descriptor import Claim, Metric
from phased_lab.runs.folder import read
from phased_lab.tables import Table, literal


def tables(folder: Path) -> dict[str, str]:
    """Tables of the runs at the paper's scale: of each section those in the figure, "beyond ..." the others; and "leak".

    Sections with a table of the paper have "table of ..." too, those with further tests "further tests of ...".
    """
    at_scale = [group for group in groups(read(folder).records) if group.scale == "paper"]
    found = {"leak": of_leaks(at_scale)}
    apart = sections(at_scale)
    for key, section in zip(keys(apart), apart, strict=True):
        shown = main(section)
        others = [group for group in section if group not in shown]
        found[key] = of_groups(shown)
        tabled, further = paper_table(section), evaluations_table(section)
        if tabled is not None:
            found[f"table of {key}"] = of_cells(tabled)
        if further is not None:
            found[f"further tests of {key}"] = of_cells(further)
        if others:
            found[f"beyond {key}"] = of_groups(others, beside_paper=False)
    return found


def of_groups(shown: Sequence[Group], beside_paper: bool = True) -> str:
    """A row per group: the result over five epochs and in the last one, updates, device, and the paper's number."""
    about = shown[0].experiment
    metric = about.metric
    head = ["condition", "network", "accuracy" if metric == "accuracy" else "mean squared error", "last epoch alone"]
    head += ["training loss", "updates", "seeds", "ran on", "paper"]
    rows = []
    for group in shown:
        last = spread(record.curve[-1].test for record in group.records)
        cells = [about.condition(group.condition, short=True), group.label, measured(group.test, metric), one(last.mean, metric)]
        cells += [f"{group.loss.mean:.2g}", group.updates_words, str(group.test.n), devices(group), claimed(group.claim, metric)]
        rows.append(cells)
    columns = len(head) if beside_paper and any(row[-1] for row in rows) else len(head) - 1
    return Table(head[:columns], [[*map(literal, row[:columns])] for row in rows]).markdown()


def of_cells(cells: Cells) -> str:
    """A table with a column for the headings of its row groups, if it has any."""
    headed = any(heading for heading, _ in cells.rows)
    head = [cells.headings] if headed else []
    rows = [[*([heading] if headed else []), *line] for heading, line in cells.rows]
    return Table([*head, *cells.head], [[*map(literal, row)] for row in rows]).markdown()


def of_leaks(of: Sequence[Group]) -> str:
    """A row for each pair of groups that differ only in the leak."""
    verdict = {True: "yes", False: "no", None: "one seed"}
    pairs = leak_pairs(of)
    leaks = sorted({pair.leaking.settings["leak"] for pair in pairs}) or [0.001]
    rows = []
    for pair in pairs:
        group = pair.without
        what = [group.experiment.name, group.experiment.condition(group.condition, short=True)]
        if group.data:
            what.append(group.data_words)
        if len(leaks) > 1:
            what.append(f"leak {pair.leaking.settings['leak']:g}")
        sides = (measured(side.test, group.experiment.metric) for side in (pair.without, pair.leaking))
        rows.append([literal(", ".join(what)), *sides, verdict[pair.within_spread]])
    with_leak = f"leak {leaks[0]:g}" if len(leaks) == 1 else "with the leak"
    return Table(("task", "leak 0", with_leak, "within the spread"), rows).markdown()


def measured(test: Spread, metric: Metric) -> str:
    """The mean and the standard deviation, if there is one."""
    if test.deviation is None:
        return one(test.mean, metric)
    if metric == "accuracy":
        return f"{100 * test.mean:.2f} ± {100 * test.deviation:.2f} %"
    return f"{test.mean:.2g} ± {test.deviation:.2g}"


def one(value: float, metric: Metric) -> str:
    """An accuracy as percent, an error as it is."""
    return f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.2g}"


def claimed(claim: Claim | None, metric: Metric) -> str:
    """The paper's number, or the range that it is in."""
    if claim is None:
        return ""
    unit, sign = (100, " %") if metric == "accuracy" else (1, "")
    low, high = (f"{unit * value:g}" for value in (claim.low, claim.high))
    return f"{low}{sign}" if low == high else f"{low} to {high}{sign}"


def devices(group: Group) -> str:
    """The short names of the devices of its runs."""
    return " and ".join(sorted({record.device.removeprefix("NVIDIA ").removeprefix("AMD ") for record in group.records}))


if __name__ == "__main__":
    for name, text in tables(Path(sys.argv[1])).items():
        print(f"{name}\n\n{text}\n")
