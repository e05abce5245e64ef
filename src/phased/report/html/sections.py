"""What the page says, section by section: which charts and tables results fill, in words that own up to their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np

from phased.report import findings, names, paper
from phased.report.gates import sample_clock
from phased.report.html import charts, gate_charts
from phased.report.html.blocks import Chart, Key, Part, Section, Table
from phased.report.looks import by_condition, by_variant, full_name, machines_note, seeds_note
from phased.report.results import Result
from phased.report.study import FEWEST_SETTINGS, Group, compared, keys, lowest, main, renamed, studies
from phased.report.style import MODELS, OTHER_MODEL

QUICK = "Fewer or shorter epochs than the paper's: a first look, not a reproduction. The paper's numbers are for its own scale."


def sections(groups: Sequence[Group], results: Sequence[Result], folder: str) -> list[Section]:
    """All of the page's sections; a figure of the paper without results says how to make them."""
    found: dict[str, list[Section]] = {figure.experiment: [] for figure in paper.FIGURES}
    apart = studies(groups)
    for key, study in zip(keys(apart), apart, strict=True):
        found.setdefault(study[0].experiment, []).append(_study(key, study))
    for figure in paper.FIGURES:
        found[figure.experiment] = found[figure.experiment] or [_nothing(figure, folder)]
    last = [section for section in (_leak(groups), _cost(results)) if section is not None]
    return [section for some in found.values() for section in some] + last


def _nothing(figure: paper.Figure, folder: str) -> Section:
    text = [f"What the paper finds: {figure.finding}"]
    command = findings.command(figure.experiment, folder)
    return Section(figure.experiment, _heading(figure.experiment), ["no results yet"], text, [], command)


def _heading(experiment: str) -> str:
    figure = paper.figure(experiment)
    return f"{figure.number}: {figure.title}" if figure else experiment


def _study(key: str, groups: Sequence[Group]) -> Section:
    experiment, scale, task = groups[0].study
    figure = paper.figure(experiment)
    metric = figure.metric if figure else "accuracy"
    shown = main(groups)
    left_out = len(groups) - len(shown)
    text = [f"What the paper finds: {figure.finding}"] if figure else []
    text += [QUICK] if scale != "paper" else []
    machines = machines_note([result for group in groups for result in group.results])
    parts = [_bars(key, shown)] if experiment == "frequency" else []
    parts.append(_learning(key, shown, metric))
    parts.append(_numbers(groups, metric))
    if left_out:
        more = (
            f"{names.counted(left_out, 'group')} of runs with other settings, or under fewer conditions: not in the charts above."
        )
        parts[-1] = replace(parts[-1], note=f"{parts[-1].note} {more}")
    settings = compared(groups)
    if metric == "accuracy" and len([group for group in settings if group.model == "phased"]) >= FEWEST_SETTINGS:
        parts.append(_tradeoff(key, settings))
    parts += _gates(key, [group for group in shown if any(run.after is not None for run in group.results)])
    law = names.task({"task.periods": groups[0].settings.get("task.periods")})
    badges = [f"{scale} scale", seeds_range(groups), task or law, machines]
    apart = ", ".join(filter(None, ("" if scale == "paper" else scale, task)))
    return Section(key, _heading(experiment), list(filter(None, badges)), text, parts, apart=apart)


def seeds_range(groups: Sequence[Group]) -> str:
    """How many seeds the groups have, from the fewest to the most."""
    counts = sorted({len(set(group.seeds)) for group in groups})
    return names.counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _bars(key: str, groups: Sequence[Group]) -> Part:
    note = (
        f"Mean of the last five epochs' tests. {seeds_note(groups)}. Bar: from chance to the mean; whisker: standard deviation; "
        "dot: one seed; black line: the paper's value, read off its plot."
    )
    keys = [Key(look.label, look.colour, mark="■") for look in dict.fromkeys(by_variant(groups))]
    return Part("Accuracy by sampling condition", note, [Chart(f"{key}-bars", charts.bars(groups), wide=True)], legend=keys)


def _learning(key: str, groups: Sequence[Group], metric: str) -> Part:
    note = f"Line: mean; band: least to greatest over seeds. {seeds_note(groups)}. Press a name to single out its lines."
    if metric == "error":
        note += " Grey lines: " + "; ".join(f"{value:.3f}, {words}" for words, value in paper.PLATEAUS.items()) + "."
        looks = by_condition(groups)
        boxes = [Chart(f"{key}-learning", charts.learning(groups, looks, lowest=None), wide=True)]
    else:
        looks = by_variant(groups)
        boxes = []
        floor = float(np.fmin(48.0, 100 * lowest(groups)))
        conditions = list(dict.fromkeys(group.condition for group in groups))
        for place, condition in enumerate(conditions):
            pairs = [(group, look) for group, look in zip(groups, looks, strict=True) if group.condition == condition]
            spec = charts.learning([group for group, _ in pairs], [look for _, look in pairs], floor)
            single = len(conditions) == 1
            boxes.append(Chart(f"{key}-learning-{place}", spec, "" if single else names.condition(condition), wide=single))
    return Part("Learning curves", note, boxes, legend=[Key(*look) for look in dict.fromkeys(looks)])


def _numbers(groups: Sequence[Group], metric: str) -> Part:
    head = ["model", "ours", "paper", "least to greatest", "seeds", "updates", "epochs"]
    rows = []
    in_figure = {result.name for group in main(groups) for result in group.results}
    for group in groups:
        updates = "every step" if group.results[0].updates is None else f"{100 * group.updates.mean:.1f} %"
        claim = _claim(group.claim if group.results[0].name in in_figure else None)
        cells = [measured(group, metric), claim, _range(group, metric), _seeds(group), updates, str(group.epochs)]
        rows.append((names.condition(group.condition), [group.label, *cells]))
    unit = "Accuracy in percent" if metric == "accuracy" else "Mean squared error"
    note = f"{unit} over the last five epochs' tests, fresh sequences each, none picked: mean ± standard deviation over seeds."
    epochs = {group.claim.epochs for group in groups if group.claim is not None}
    if epochs:
        note += f" The paper's numbers are read off its authors' plots, after {max(epochs)} epochs."
    return Part("Numbers", note, table=Table(head, rows))


def measured(group: Group, metric: str) -> str:
    """The mean and the standard deviation, if there is one."""
    test = group.test
    if not test.n:
        return "diverged"
    mean = number(test.mean, metric)
    return mean if test.deviation is None else f"{mean} ± {number(test.deviation, metric)}"


def number(value: float, metric: str) -> str:
    """An accuracy as percent, an error as it is."""
    if not math.isfinite(value):
        return "-"
    return f"{100 * value:.1f}" if metric == "accuracy" else f"{value:.4f}"


def _claim(claim: paper.Claim | None) -> str:
    if claim is None:
        return "-"
    low, high = f"{100 * claim.low:.3g}", f"{100 * claim.high:.3g}"
    return low if low == high else f"{low} to {high}"


def _range(group: Group, metric: str) -> str:
    test = group.test
    return f"{number(test.low, metric)} to {number(test.high, metric)}" if test.n > 1 else "-"


def _seeds(group: Group) -> str:
    return f"{group.test.n}" + (f", and {group.test.lost} diverged" if group.test.lost else "")


def _tradeoff(key: str, groups: Sequence[Group]) -> Part:
    condition = names.condition(groups[0].condition)
    note = (
        f"{condition.capitalize()}. A model without time gates updates every unit at every step. {seeds_note(groups)}; "
        "point: mean; whiskers: standard deviation; dot: one seed. The leak acts in training only and makes no update here."
    )
    looks = charts.settings_looks(groups)
    keys = [Key(look.label, look.colour, mark=mark) for look, mark in zip(looks, cycle(charts.SHAPES.values()), strict=False)]
    return Part("Accuracy against updates", note, [Chart(f"{key}-updates", charts.tradeoff(groups), wide=True)], legend=keys)


def _gates(key: str, groups: Sequence[Group]) -> list[Part]:
    """Periods and ratios of each group, and a raster of one run: the last condition, first variant, first seed."""
    if not groups:
        return []
    labels = [full_name(group, groups) for group in groups]
    rows, colour = gate_charts.units(groups), MODELS.get(groups[0].model, OTHER_MODEL)
    learned = Part(
        "Gates before and after training",
        f"A dot for each unit of each seed. {seeds_note(groups)}. Left: the line is an unchanged period. "
        "Right: the grey line is the mean open ratio before training, the dashed one after.",
        [
            Chart(f"{key}-periods", gate_charts.periods(rows, colour), "periods"),
            Chart(f"{key}-ratios", gate_charts.ratios(rows, colour), "open ratios"),
        ],
        choice=labels,
        units=rows,
    )
    group = next(group for group in groups if group.condition == groups[-1].condition)
    run = next(run for run in group.results if run.after is not None)
    clock = sample_clock(run)
    shares = [gate_charts.share_open(gates, clock) for gates in (run.before, run.after) if gates is not None]
    raster = Part(
        "Who is open when",
        f"{group.label}, {names.condition(group.condition)}, seed {run.seed}. The clock is made for this chart: {clock.words}. "
        f"Open, of all units x samples: {shares[0]:.1%} before training, {shares[-1]:.1%} after.",
        [
            Chart(f"{key}-three", gate_charts.three(run), "three units after training", wide=True),
            Chart(
                f"{key}-raster",
                gate_charts.raster(run),
                "all units; every mark is an update",
                wide=True,
            ),
        ],
        choice=["before training", "after training"],
        chosen=1,
    )
    return [learned, raster]


def _leak(groups: Sequence[Group]) -> Section | None:
    pairs = findings.leak_pairs(renamed(groups))
    if not pairs:
        return None
    verdict = {True: "yes", False: "no", None: "one seed: unknown"}
    rows = []
    for pair in pairs:
        figure = paper.figure(pair.without.experiment)
        metric = figure.metric if figure else "accuracy"
        change = f"{100 * pair.difference:+.2f}" if metric == "accuracy" else f"{pair.difference:+.4f}"
        cells = [
            f"{names.condition(pair.without.condition, short=True)}, {pair.without.label.replace(', leak 0', '')}",
            measured(pair.without, metric),
            measured(pair.leaking, metric),
            names.number(pair.leaking.settings["leak"]),
            change,
            verdict[pair.within_spread],
            f"{names.rounded(pair.without.loss.mean)} and {names.rounded(pair.leaking.loss.mean)}",
            "different machines" if pair.faster is None else f"{pair.faster:.1f}x",
            f"{pair.without.test.n} and {pair.leaking.test.n}",
        ]
        place = _heading(pair.without.experiment), f"{pair.without.scale} scale", pair.without.task
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
        "Without a leak only open units are computed in training too. These runs differ in no other setting. "
        "Accuracy is in percent; adding is a mean squared error. "
        "Within the spread: the difference is no larger than the larger standard deviation. "
        "Training losses are of fresh sequences too, but with the leak acting: where that one is low and the test is not, "
        "the network has learned to use the leak, which a test does without. "
        "Faster: how many times shorter an epoch is without the leak, as the runs went, perhaps several at once on one machine."
    ]
    return Section("leak", "Training without a leak", [], text, [Part(table=Table(head, rows))])


def _cost(results: Sequence[Result]) -> Section | None:
    rows = []
    for cost in findings.costs(results):
        times = [names.seconds(value) for value in (cost.epoch, cost.wall.mean, sum(cost.wall.values))]
        rows.append((f"{_heading(cost.experiment)}, {cost.scale} scale, {cost.device}", [cost.label, str(cost.wall.n), *times]))
    if not rows:
        return None
    head = ["model", "runs", "an epoch", "a run", "all runs"]
    text = ["Means over runs of all conditions; an epoch is the median of a run's epochs. Runs may have shared the machine."]
    return Section("cost", "What it cost", [], text, [Part(table=Table(head, rows))])
