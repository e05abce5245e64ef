"""The sections of the page: their charts, tables and texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np

from phased.pictures.save import data_uri
from phased.pictures.style import styled
from phased_lab.report import findings, names
from phased_lab.report.groups import Group, compared, keys, learning, lowest, main
from phased_lab.report.groups import sections as comparable
from phased_lab.report.html import charts, gate_charts
from phased_lab.report.html.blocks import Chart, Key, Part, Section, Table
from phased_lab.report.looks import Look, by_condition, by_variant, colour, full_name, machines_note, seeds_note, tests_words
from phased_lab.report.table import evaluations_table, paper_table
from phased_lab.runs import catalogue
from phased_lab.runs.descriptor import Claim, Experiment, Metric
from phased_lab.runs.record import Record

QUICK = "Fewer epochs than in the paper: a first look, not a reproduction. The paper's numbers are for the paper's scale."


def sections(groups: Sequence[Group], records: Sequence[Record], folder: str) -> list[Section]:
    """All sections of the page; one for a figure of the paper without results has the command that makes them."""
    apart = comparable(groups)
    made = [(section[0].experiment.name, _results(key, section)) for key, section in zip(keys(apart), apart, strict=True)]
    found = []
    for experiment in catalogue.experiments().values():
        own = [section for name, section in made if name == experiment.name]
        if own or experiment.figure_runs():
            found += own or [_nothing(experiment, folder)]
    found += [section for name, section in made if name not in catalogue.experiments()]
    return found + [section for section in (_leak(groups), _cost(records)) if section is not None]


def _nothing(experiment: Experiment, folder: str) -> Section:
    text = [f"What the paper finds: {experiment.finding}"] if experiment.finding else []
    return Section(experiment.name, experiment.heading, ["no results yet"], text, [], findings.command(experiment, folder))


def _results(key: str, groups: Sequence[Group]) -> Section:
    about, scale = groups[0].experiment, groups[0].scale
    shown, curves = main(groups), learning(groups)
    left_out = len(groups) - len(curves)
    text = [f"What the paper finds: {about.finding}"] if about.finding else []
    text += [QUICK] if scale != "paper" else []
    parts = _tables(groups)
    parts += [_bars(key, shown)] if "bars" in about.charts else []
    if "loss" in about.charts and all(group.has_test_loss for group in curves):
        parts.append(_loss(key, curves))
    if "learning" in about.charts:
        parts.append(_learning(key, curves))
    parts.append(_numbers(groups))
    if left_out:
        more = f"{names.counted(left_out, 'group')} of other studies, or under fewer conditions, not in the charts above."
        parts[-1] = replace(parts[-1], note=f"{parts[-1].note} {more}")
    further = evaluations_table(groups)
    if further is not None:
        parts.append(
            Part(
                "Further tests", "After training: mean ± standard deviation over seeds.", table=Table(further.head, further.rows)
            )
        )
    settings = compared(groups)
    if settings:
        parts.append(_tradeoff(key, settings))
    if "gates" in about.charts:
        parts += _gates(key, [group for group in shown if any(run.after is not None for run in group.records)])
    if about.illustrate is not None:
        example = about.illustrate()
        with styled():
            parts.append(Part(example.title, example.note, picture=data_uri(example.figure)))
    machines = machines_note([record for group in groups for record in group.records])
    badges = [f"{scale} scale", seeds_range(groups), groups[0].data_words, machines]
    apart = ", ".join(filter(None, ("" if scale == "paper" else scale, groups[0].data_words if groups[0].data else "")))
    return Section(key, about.heading, list(filter(None, badges)), text, parts, apart=apart)


def seeds_range(groups: Sequence[Group]) -> str:
    """The number of seeds of the groups, or its range."""
    counts = sorted({len(set(group.seeds)) for group in groups})
    return names.counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _tables(groups: Sequence[Group]) -> list[Part]:
    """The paper's table, if the descriptor has one."""
    found = paper_table(groups)
    if found is None:
        return []
    about = groups[0].experiment
    shown = main(groups)
    note = f"Mean ± standard deviation over seeds, beside the paper's numbers. {seeds_note(shown)}."
    sizes = {(group.settings.get("train"), group.settings.get("test")) for group in shown}
    if len(sizes) == 1 and all(isinstance(size, int) for size in next(iter(sizes))):
        note += " An epoch trains on {:,} sequences and tests on {:,}.".format(*sizes.pop())
    return [Part(about.number or about.title, note, table=Table(found.head, found.rows))]


def _bars(key: str, groups: Sequence[Group]) -> Part:
    note = (
        f"Accuracy in {tests_words(groups)}. {seeds_note(groups)}. Bar: from chance to the mean; whisker: standard deviation; "
        "dot: one seed; black line: the paper's value, read off its plot."
    )
    keys = [Key(look.label, look.colour, mark="■") for look in dict.fromkeys(by_variant(groups))]
    return Part("Accuracy by condition", note, [Chart(f"{key}-bars", charts.bars(groups), wide=True)], legend=keys)


def _learning(key: str, groups: Sequence[Group]) -> Part:
    about = groups[0].experiment
    note = f"Line: mean; band: minimum to maximum over seeds. {seeds_note(groups)}. Click a name to highlight its lines."
    if about.levels:
        note += " Grey lines: " + "; ".join(f"{value:.3f}, {words}" for words, value in about.levels.items()) + "."
    if about.metric == "error":
        looks = by_condition(groups)
        boxes = [Chart(f"{key}-learning", charts.learning(groups, looks, lowest=None), wide=True)]
    else:
        looks = by_variant(groups)
        floor = float(np.fmin(100 * (about.chance or 0.0) - 2, 100 * lowest(groups)))
        boxes = _by_condition(f"{key}-learning", groups, looks, floor)
    return Part("Learning curves", note, boxes, legend=[Key(*look) for look in dict.fromkeys(looks)])


def _loss(key: str, groups: Sequence[Group]) -> Part:
    looks = by_variant(groups)
    note = f"Line: mean; band: minimum to maximum over seeds. {seeds_note(groups)}."
    boxes = _by_condition(f"{key}-loss", groups, looks, lowest=None, field="test_loss")
    return Part("Test loss", note, boxes, legend=[Key(*look) for look in dict.fromkeys(looks)])


def _by_condition(
    key: str, groups: Sequence[Group], looks: Sequence[Look], lowest: float | None, field: str = "test"
) -> list[Chart]:
    """A chart of learning curves for each condition."""
    about, boxes = groups[0].experiment, []
    conditions = list(dict.fromkeys(group.condition for group in groups))
    for place, condition in enumerate(conditions):
        pairs = [(group, look) for group, look in zip(groups, looks, strict=True) if group.condition == condition]
        spec = charts.learning([group for group, _ in pairs], [look for _, look in pairs], lowest, field)
        single = len(conditions) == 1
        boxes.append(Chart(f"{key}-{place}", spec, "" if single else about.condition(condition), wide=single))
    return boxes


def _numbers(groups: Sequence[Group]) -> Part:
    about, metric = groups[0].experiment, groups[0].experiment.metric
    claims = ["paper"] if about.claims else []
    head = ["model", "ours", *claims, "minimum to maximum", "seeds", "updates", "epochs"]
    rows = []
    in_figure = main(groups)
    for group in groups:
        claim = [_claim(group.claim if group in in_figure else None, metric) for _ in claims]
        cells = [measured(group, metric), *claim, _range(group, metric), _seeds(group), group.updates_words, str(group.epochs)]
        rows.append((about.condition(group.condition), [group.label, *cells]))
    unit = "Accuracy in percent" if metric == "accuracy" else "Mean squared error"
    note = f"{unit} in {tests_words(groups)}: mean ± standard deviation over seeds."
    epochs = {group.claim.epochs for group in groups if group.claim is not None}
    if epochs:
        note += f" The paper's numbers are read off its authors' plots, after {max(epochs)} epochs."
    return Part("Numbers", note, table=Table(head, rows))


def measured(group: Group, metric: Metric) -> str:
    """The mean and the standard deviation, if there is one."""
    test = group.test
    if not test.n:
        return "diverged"
    mean = number(test.mean, metric)
    return mean if test.deviation is None else f"{mean} ± {number(test.deviation, metric)}"


def number(value: float, metric: Metric) -> str:
    """An accuracy in percent, an error unchanged."""
    if not math.isfinite(value):
        return "-"
    return f"{100 * value:.1f}" if metric == "accuracy" else f"{value:.4f}"


def _claim(claim: Claim | None, metric: Metric) -> str:
    if claim is None:
        return "-"
    unit = 100 if metric == "accuracy" else 1
    low, high = f"{unit * claim.low:.3g}", f"{unit * claim.high:.3g}"
    return low if low == high else f"{low} to {high}"


def _range(group: Group, metric: Metric) -> str:
    test = group.test
    return f"{number(test.low, metric)} to {number(test.high, metric)}" if test.n > 1 else "-"


def _seeds(group: Group) -> str:
    return f"{group.test.n}" + (f", and {group.test.lost} diverged" if group.test.lost else "")


def _tradeoff(key: str, groups: Sequence[Group]) -> Part:
    condition = groups[0].experiment.condition(groups[0].condition)
    note = (
        f"{condition.capitalize()}. A model without time gates updates every unit at every step. {seeds_note(groups)}; "
        "point: mean; whiskers: standard deviation; dot: one seed. The leak acts in training only and makes no update."
    )
    looks = charts.settings_looks(groups)
    keys = [Key(look.label, look.colour, mark=mark) for look, mark in zip(looks, cycle(charts.SHAPES.values()), strict=False)]
    return Part("Accuracy against updates", note, [Chart(f"{key}-updates", charts.tradeoff(groups), wide=True)], legend=keys)


def _gates(key: str, groups: Sequence[Group]) -> list[Part]:
    """Periods and ratios of each group, and a raster of one run: last condition, first variant, first seed."""
    if not groups:
        return []
    labels = [full_name(group, groups) for group in groups]
    rows, tone = gate_charts.units(groups), colour(groups[0])
    learned = Part(
        "Gates before and after training",
        f"A dot for each unit of each seed. {seeds_note(groups)}. Left: the line is an unchanged period. "
        "Right: the grey line is the mean open ratio before training, the dashed one after.",
        [
            Chart(f"{key}-periods", gate_charts.periods(rows, tone), "periods"),
            Chart(f"{key}-ratios", gate_charts.ratios(rows, tone), "open ratios"),
        ],
        choice=labels,
        units=rows,
    )
    group = next(group for group in groups if group.condition == groups[-1].condition)
    run = next(run for run in group.records if run.after is not None)
    clock = group.experiment.clock(run)
    shares = [gate_charts.share_open(gates, clock) for gates in (run.before, run.after) if gates is not None]
    raster = Part(
        "Open units over time",
        f"{group.label}, {group.experiment.condition(group.condition)}, seed {run.seed}. "
        f"The clock is made for this chart: {clock.words}. "
        f"Open, of all units x samples: {shares[0]:.1%} before training, {shares[-1]:.1%} after.",
        [
            Chart(f"{key}-three", gate_charts.three(run, clock), "three units after training", wide=True),
            Chart(
                f"{key}-raster",
                gate_charts.raster(run, clock),
                "all units; every mark is an update",
                wide=True,
            ),
        ],
        choice=["before training", "after training"],
        chosen=1,
    )
    return [learned, raster]


def _leak(groups: Sequence[Group]) -> Section | None:
    pairs = findings.leak_pairs(groups)
    if not pairs:
        return None
    verdict = {True: "yes", False: "no", None: "one seed: unknown"}
    rows = []
    for pair in pairs:
        about = pair.without.experiment
        metric = about.metric
        change = f"{100 * pair.difference:+.2f}" if metric == "accuracy" else f"{pair.difference:+.4f}"
        cells = [
            f"{about.condition(pair.without.condition, short=True)}, {pair.without.label.replace(', leak 0', '')}",
            measured(pair.without, metric),
            measured(pair.leaking, metric),
            names.number(pair.leaking.settings["leak"]),
            change,
            verdict[pair.within_spread],
            f"{names.rounded(pair.without.loss.mean)} and {names.rounded(pair.leaking.loss.mean)}",
            "different machines" if pair.faster is None else f"{pair.faster:.1f}x",
            f"{pair.without.test.n} and {pair.leaking.test.n}",
        ]
        place = about.heading, f"{pair.without.scale} scale", pair.without.data_words if pair.without.data else ""
        rows.append((", ".join(filter(None, place)), cells))
    head = [
        "condition and model",
        "leak 0",
        "with a leak",
        "of",
        "difference",
        "within spread",
        "training losses",
        "faster",
        "seeds",
    ]
    text = [
        "Without a leak only open units are computed, in training too. The two runs of a row differ in no other setting. "
        "Accuracies are in percent, errors are mean squares. "
        "Within spread: the difference is at most the larger standard deviation. "
        "Training losses, too, are of new sequences, with the leak where there is one. Where the training loss is low "
        "and the test error is not, the network has learned to rely on the leak, which is 0 in the test. "
        "Faster: how many times shorter an epoch is without the leak; several runs may have shared the machine."
    ]
    return Section("leak", "Training without a leak", [], text, [Part(table=Table(head, rows))])


def _cost(records: Sequence[Record]) -> Section | None:
    rows = []
    for cost in findings.costs(records):
        times = [names.seconds(value) for value in (cost.epoch, cost.wall.mean, sum(cost.wall.values))]
        rows.append((f"{cost.experiment.heading}, {cost.scale} scale, {cost.device}", [cost.label, str(cost.wall.n), *times]))
    if not rows:
        return None
    head = ["model", "runs", "an epoch", "a run", "all runs"]
    text = ["Means over the runs of all conditions; an epoch is the median of a run's epochs. Runs may have shared the machine."]
    return Section("cost", "What it cost", [], text, [Part(table=Table(head, rows))])
