"""The charts of results, each declared once: the page embeds them, and `phased report` writes them as PNG and SVG."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import altair as alt
import numpy as np

from phased.pictures.style import INK, QUIET, UNITS
from phased_lab.report.looks import Look, full_name, looks, seeds_note, tests_words
from phased_lab.report.openness import Array, bends, by_period, evenly, is_open, openness
from phased_lab.report.seeds import Group, Spread, compared, learning, main
from phased_lab.report.theme import AXIS, HEIGHT, WIDTH, Figure, colours, data, finished
from phased_lab.runs.descriptor import Clock
from phased_lab.runs.record import Record

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
PERCENT = (0.5, 1, 2, 5, 10, 20, 50, 100)  # labels of an axis
MOST_UNITS = 150  # in a figure: more could not be distinguished
NAN = float("nan")
Row = dict[str, Any]


def figures(section: Sequence[Group]) -> Iterator[Figure]:
    """The charts of one section, as far as its descriptor names them and its groups have the data."""
    shown, curves, charts = main(section), learning(section), section[0].experiment.charts
    if "bars" in charts:
        yield draw_bars(shown)
    if "loss" in charts and all(point.test_loss is not None for group in curves for run in group.records for point in run.curve):
        yield draw_loss(curves)
    if "learning" in charts:
        yield draw_learning(curves)
    if settings := compared(section):
        yield draw_updates(settings)
    gated = [group for group in shown if gates_of(group)]
    if "gates" in charts and gated:
        # The last condition is the hardest in every experiment so far. Its first group is the default choice.
        first = next(group for group in gated if group.condition == gated[-1].condition)
        yield draw_gates(gated, gated.index(first))
        yield draw_raster(first)


def draw_bars(groups: Sequence[Group]) -> Figure:
    """Bars from chance to the mean, whiskers of one standard deviation, a dot for each seed, a line for the paper."""
    about, kinds = groups[0].experiment, looks(groups)
    chance = 100 * (about.chance or 0.0)
    rows: list[Row] = []
    seeds: list[Row] = []
    for group, look in zip(groups, kinds, strict=True):
        place: Row = {"condition": about.condition(group.condition), "label": look.label}
        numbers = around(group.test, NAN, "mean", "low", "high")
        numbers["paper"] = 100 * group.claim.value if group.claim else NAN
        rows.append(place | {"seeds": group.test.n} | numbers)
        seeds += [place | {"seed": run.seed, "test": 100 * run.test} for run in group.records]
    conditions = list(dict.fromkeys(row["condition"] for row in rows))
    labels = list(dict.fromkeys(look.label for look in kinds))
    # The outer padding keeps a few bars narrow on a wide page.
    padded = alt.Scale(paddingInner=0.2, paddingOuter=max(0.2, 0.8 - 0.2 * len(conditions)))
    words = alt.Axis(labelAngle=0, labelExpr="split(datum.label, ', ')", ticks=False)
    lowest = min([chance, *(seed["test"] for seed in seeds if np.isfinite(seed["test"]))]) - 2
    scale = alt.Scale(domain=[lowest, 102], nice=False)
    beside: Row = {
        "x": alt.X("condition:N", sort=conditions, title=None, axis=words, scale=padded),
        "xOffset": alt.XOffset("label:N", sort=labels, scale=alt.Scale(paddingInner=0.1)),
    }
    tips: list[Any] = [
        "label:N",
        "condition:N",
        *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("mean", "low", "high", "paper")),
    ]
    base = alt.Chart(data(rows)).encode(opacity=picked(), tooltip=[*tips, "seeds:Q"], **beside)
    mean = alt.Y("mean:Q", title="test accuracy (%)", scale=scale)
    chart = alt.layer(
        level(chance, scale, alt.Chart(data([{"level": chance}]))),
        base.mark_bar().encode(y=mean, y2=alt.Y2Datum(chance), color=coloured(kinds, symbolType="square")).add_params(PICK),
        base.mark_tick(color=INK, thickness=2).encode(y="paper:Q").transform_filter("isValid(datum.paper)"),
        base.mark_rule(color=INK, strokeWidth=1.2)
        .transform_calculate(bottom=f"max(datum.low, {lowest})", top="min(datum.high, 102)")
        .transform_filter("isValid(datum.high)")
        .encode(y="bottom:Q", y2="top:Q"),
        alt.Chart(data(seeds))
        .mark_circle(size=16, color="white", stroke=INK, strokeWidth=0.7, opacity=1)
        .encode(y="test:Q", tooltip=["label:N", "condition:N", "seed:Q", alt.Tooltip("test:Q", title="%")], **beside),
    )
    paper = " Black line: the paper's value, read off its plot." if any(group.claim for group in groups) else ""
    note = (
        f"Accuracy in {tests_words(groups)}. {seeds_note(groups)}. Bar: from chance to the mean. Whisker: standard deviation. "
        f"Dot: one seed.{paper}"
    )
    description = "Test accuracy of each model under each condition"
    return Figure("bars", "Accuracy by condition", note, alone(chart, description, labels))


def draw_learning(groups: Sequence[Group]) -> Figure:
    """The test metric over training: an accuracy in a panel for each condition, an error of all conditions in one panel."""
    about = groups[0].experiment
    note = f"Line: mean. Band: minimum to maximum over seeds. {seeds_note(groups)}."
    if about.levels:
        note += " Grey lines: " + "; ".join(f"{value:.3f}, {words}" for words, value in about.levels.items()) + "."
    levels = [*([] if about.chance is None else [about.chance]), *about.levels.values()]
    if about.metric == "error":
        chart = draw_curves(groups, "test", "test mean squared error", alt.Scale(type="log"), levels, one_panel=True)
    else:
        lows = [point.low for group in groups for _, point in group.curve()]
        lowest = float(np.nanmin([about.chance or 0.0, *lows]))
        scale = alt.Scale(domain=[100 * lowest - 2, 101], nice=False)
        chart = draw_curves(groups, "test", "test accuracy (%)", scale, levels, unit=100.0)
    return Figure("learning", "Learning curves", note, chart)


def draw_loss(groups: Sequence[Group]) -> Figure:
    """The test loss over training, a panel for each condition."""
    note = f"Line: mean. Band: minimum to maximum over seeds. {seeds_note(groups)}."
    return Figure("loss", "Test loss", note, draw_curves(groups, "test_loss", "test loss", alt.Scale(zero=True)))


def draw_curves(
    groups: Sequence[Group],
    field: str,
    title: str,
    scale: alt.Scale,
    levels: Sequence[float] = (),
    unit: float = 1.0,
    one_panel: bool = False,
) -> alt.TopLevelMixin:
    """Mean and range over seeds at every epoch, with a panel for each condition or all conditions in one panel."""
    about, kinds = groups[0].experiment, looks(groups, of_conditions=one_panel)
    rows: list[Row] = []
    for group, look in zip(groups, kinds, strict=True):
        place = {"condition": about.condition(group.condition), "label": look.label, "seeds": group.test.n}
        for epoch, point in group.curve(field):
            rows.append(place | {"epoch": epoch, "mean": unit * point.mean, "low": unit * point.low, "high": unit * point.high})
    last = max(row["epoch"] for row in rows)
    # Fewer than ten epochs have a tick each. Vega's default would add fractions.
    ticks = alt.Axis(format="d", values=list(range(1, last + 1))) if last < 10 else alt.Axis(format="d", tickCount=6)
    y = alt.Y(
        "mean:Q", title=", ".join(filter(None, (title, about.tested))), scale=scale, axis=alt.Axis(format="~r", tickCount=6)
    )
    dashes = {look.label: list(look.dash) for look in kinds}
    labels = list(dashes)
    stroke: Row = {"symbolType": "stroke", "symbolStrokeWidth": 2.5}
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=list(dashes.values())), legend=alt.Legend(**stroke))
    base = alt.Chart().encode(
        x=alt.X("epoch:Q", title="epoch", axis=ticks, scale=alt.Scale(nice=False)),
        color=coloured(kinds, **stroke),
        tooltip=["label:N", "epoch:Q", "mean:Q", "low:Q", "high:Q", "seeds:Q"],
    )
    one_row = alt.Chart().transform_aggregate(n="count()", groupby=["condition"])  # else every row would draw the level
    chart = alt.layer(
        *(level(unit * each, scale, one_row) for each in levels),
        base.mark_area().encode(y=alt.Y("low:Q", scale=scale), y2="high:Q", opacity=picked(0.16, 0.02)),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash, opacity=picked()).add_params(PICK),
        base.mark_circle(size=90, opacity=0 if last > 1 else 1).encode(y="mean:Q"),  # for the tooltips
        data=data(rows),
    )
    conditions = list(dict.fromkeys(row["condition"] for row in rows))
    description = f"The {field.replace('_', ' ')} over training, mean and range over seeds"
    if one_panel or len(conditions) < 2:
        return alone(chart, description, labels)
    columns = min(3, len(conditions))
    sized = chart.properties(width=WIDTH // columns - 15, height=HEIGHT)
    panel = alt.Facet("condition:N", sort=conditions, title=None)
    return finished(sized.facet(panel, columns=columns), description, labels)


def draw_updates(groups: Sequence[Group]) -> Figure:
    """Accuracy against updates: a point for each setting, whiskers of one standard deviation, small dots for seeds."""
    # Only models without time gates need their name.
    kinds = [
        look._replace(label=group.variant or look.label if group.gated else look.label)
        for group, look in zip(groups, looks(groups), strict=True)
    ]
    rows: list[Row] = []
    seeds: list[Row] = []
    for group, look in zip(groups, kinds, strict=True):
        numbers = around(group.updates, 0.0, "updates", "left", "right") | around(group.test, 0.0, "test", "low", "high")
        rows.append({"label": look.label, "seeds": group.test.n} | numbers)
        for run in group.records:
            updates = 100.0 if run.updates is None else 100 * run.updates
            seeds.append({"label": look.label, "seed": run.seed, "updates": updates, "test": 100 * run.test})
    lowest = min([100.0, *(seed["updates"] for seed in seeds if seed["updates"] > 0)])
    log = alt.Scale(type="log", domain=[0.8 * lowest, 110], nice=False)
    labels = [look.label for look in kinds]
    shapes = alt.Scale(domain=labels, range=list(islice(cycle(SHAPES), len(labels))))
    x = alt.X("updates:Q", title="updates (% of all units x steps)", axis=alt.Axis(values=PERCENT, format="~g"), scale=log)
    y = alt.Y("test:Q", title="test accuracy (%)", scale=alt.Scale(zero=False))
    tips = [alt.Tooltip("updates:Q", title="updates, %"), alt.Tooltip("test:Q", title="accuracy, %")]
    base = alt.Chart(data(rows)).encode(x=x, y=y, color=coloured(kinds), opacity=picked())
    chart = alt.layer(
        alt.Chart(data(seeds))
        .mark_circle(size=14, opacity=0.5)
        .encode(x=x, y=y, color="label:N", tooltip=["label:N", "seed:Q", *tips]),
        base.mark_rule().encode(x=alt.X("left:Q"), x2="right:Q"),
        base.mark_rule().encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, size=110)
        .encode(shape=alt.Shape("label:N", scale=shapes), tooltip=["label:N", *tips, "seeds:Q"])
        .add_params(PICK),
    )
    note = (
        f"{groups[0].experiment.condition(groups[0].condition).capitalize()}. {seeds_note(groups)}. Point: mean. Whiskers: "
        "standard deviation. Dot: one seed. A model without time gates updates every unit at every step. "
        "The leak acts in training only and makes no update."
    )
    made = alone(chart, "Test accuracy against the share of updates", labels)
    return Figure("updates", "Accuracy against updates", note, made)


def draw_gates(groups: Sequence[Group], first: int) -> Figure:
    """Periods and open ratios of every unit of every seed before and after training, with a choice of the group."""
    rows: list[Row] = []
    for index, group in enumerate(groups):
        for run, before, after in gates_of(group):
            units = evenly(range(before.shape[1]), MOST_UNITS)
            for (old, _, opened), (new, _, opens) in zip(before.T[units], after.T[units], strict=True):
                rows.append({"group": index, "seed": run.seed, "before": old, "after": new, "opened": opened, "opens": opens})
    labels = [full_name(group, groups) for group in groups]
    choice = alt.binding_select(options=list(range(len(groups))), labels=labels, name="Show ")
    which = alt.param(name="group", value=first, bind=choice if len(groups) > 1 else alt.Undefined)
    unit = groups[first].experiment.clock(groups[first].records[0]).unit
    log, ticks = alt.Scale(type="log", nice=False), alt.Axis(format="~g", tickCount=5)
    across = alt.X("after:Q", title=f"period after ({unit})", scale=log, axis=ticks)
    ratio = alt.Scale(domain=[0, 1.05 * max([0.1, *(row["opens"] for row in rows)])], nice=False)
    titles = {"before": "period before", "after": "period after", "opened": "open ratio before", "opens": "open ratio after"}
    tips = ["seed:Q", *(alt.Tooltip(f"{field}:Q", title=title) for field, title in titles.items())]
    base = alt.Chart(data(rows)).transform_filter("datum.group == group && datum.after > 0 && datum.before > 0")
    points = base.mark_circle(size=22, opacity=0.45, color=groups[first].kind.colour).encode(tooltip=tips)
    same = base.transform_aggregate(low="min(before)", high="max(before)").transform_fold(["low", "high"], as_=["end", "before"])
    periods = alt.layer(
        same.transform_calculate(after="datum.before").mark_line(color=QUIET, strokeWidth=1).encode(x="before:Q", y="after:Q"),
        points.encode(
            x=alt.X("before:Q", title=f"period before ({unit})", scale=log, axis=ticks),
            y=alt.Y("after:Q", title=f"period after ({unit})", scale=log, axis=ticks),
        ),
    )
    ratios = alt.layer(
        points.encode(x=across, y=alt.Y("opens:Q", title="open ratio after", scale=ratio)),
        base.mark_rule(color=QUIET).encode(y=alt.Y("mean(opened):Q", scale=ratio)),
        base.mark_rule(color=INK, strokeDash=[4, 3]).encode(y=alt.Y("mean(opens):Q", scale=ratio)),
    )
    shown = alt.Title(alt.expr(f"{json.dumps(labels)}[group]"), fontSize=12, fontWeight="normal")
    sizes = {"width": (WIDTH - AXIS) // 2, "height": HEIGHT}
    sized = periods.properties(title=shown, **sizes), ratios.properties(title=alt.Title(" ", fontSize=12), **sizes)
    note = (
        f"A dot for each unit of each seed. {seeds_note(groups)}. Left: the line is an unchanged period. "
        "Right: the grey line is the mean open ratio before training, the dashed one after."
    )
    made = finished(alt.concat(*sized, columns=2).add_params(which), "Periods and open ratios before and after training")
    return Figure("gates", "Gates before and after training", note, made)


def draw_raster(group: Group) -> Figure:
    """The gates of a group's first run with gates: three units over time, and all units at the sample times."""
    about, (record, before, after) = group.experiment, gates_of(group)[0]
    clock, sides = about.clock(record), (by_period(before), by_period(after))
    shares = [f"{is_open(gates, clock.time).mean():.1%}" for gates in sides]
    rows = [row | {"w": when} for when, gates in enumerate(sides) for row in open_units(gates, clock)]
    choice = alt.binding_select(options=list(range(len(sides))), labels=["before training", "after training"], name="Show ")
    which = alt.param(name="when", value=len(sides) - 1, bind=choice)
    gap = float(np.median(np.diff(clock.time)))
    units = alt.Scale(domain=[0, sides[-1].shape[1]], nice=False)
    raster = (
        alt.Chart(data(rows))
        .transform_filter("datum.w == when")
        .transform_calculate(end=f"min(datum.t + {gap:g}, {clock.time[-1]})", above="datum.u + 1")
        .mark_rect()
        .encode(
            x=over(clock),
            x2="end:Q",
            y=alt.Y("u:Q", title="unit, from short to long period", scale=units, axis=alt.Axis(grid=False)),
            y2="above:Q",
            color=alt.Color("k:Q", scale=alt.Scale(scheme="reds", domain=[-0.5, 1]), legend=None),
            tooltip=[alt.Tooltip(f"{field}:Q", title=word) for field, word in (("u", "unit"), ("t", "time"), ("k", "openness"))],
        )
    )
    note = (
        f"{group.label}, {about.condition(group.condition)}, seed {record.seed}. Above: three units after training. "
        f"Below: every mark is an update, darker with more openness. The clock is made for this chart: {clock.words}. "
        f"Open, of all units x samples: {shares[0]} before training, {shares[-1]} after."
    )
    panels = three(sides[-1], clock).properties(width=WIDTH, height=150), raster.properties(width=WIDTH, height=300)
    chart = alt.concat(*panels, columns=1).resolve_scale(color="independent").add_params(which)
    # Thousands of marks are drawn faster on a canvas than as SVG.
    return Figure("raster", "Open units over time", note, finished(chart, "Open units over time", renderer="canvas"))


def gates_of(group: Group) -> list[tuple[Record, Array, Array]]:
    """Return runs with period, shift and open ratio of the units in figures before and after training, each (3, H)."""
    sides = [(run, np.array(run.before), np.array(run.after)) for run in group.records if run.after is not None]
    return [(run, before[:, units], after[:, units]) for run, before, after in sides for units in [group.experiment.units(run)]]


def open_units(gates: Array, clock: Clock) -> list[Row]:
    """Return a row (time t, unit u, openness k) for every update. Keys of one letter keep the page small."""
    units = evenly(range(gates.shape[1]), MOST_UNITS)
    k = openness(gates[:, units], clock.time)
    events = np.argwhere(is_open(gates[:, units], clock.time)).tolist()
    return [{"t": float(clock.time[step]), "u": units[row], "k": round(float(k[step, row]), 2)} for step, row in events]


def three(gates: Array, clock: Clock) -> Any:
    """The openness of three units over time, in rows: a short, a medium and a long period."""
    gates = gates[:, [round(part * (gates.shape[1] - 1)) for part in (0.15, 0.5, 0.85)]]
    time = np.linspace(clock.time[0], clock.time[-1], 4000)
    k = openness(gates, time)
    rows, labels = [], []
    for unit, period in enumerate(gates[0]):
        foot = 1.6 * unit
        word = f"period {rounded(period)} {'steps' if clock.unit == 'step' else clock.unit}"
        labels.append({"t": 0.0, "top": foot + 1.25, "unit": unit, "word": word})
        line = zip(*(column.tolist() for column in bends(time, k[:, unit])), strict=True)
        rows += [{"t": t, "foot": foot, "open": foot + height, "unit": unit} for t, height in line]
    tall = alt.Scale(domain=[-0.1, 1.6 * len(labels)], nice=False)
    color = alt.Color("unit:N", scale=alt.Scale(domain=[0, 1, 2], range=list(UNITS)), legend=None)
    base = alt.Chart(data(rows)).encode(x=over(clock), y=alt.Y("open:Q", scale=tall, axis=None), color=color)
    words = alt.Chart(data(labels)).mark_text(align="left", dx=4, fontSize=12, fontWeight="bold")
    words = words.encode(x=over(clock), y=alt.Y("top:Q", scale=tall, axis=None), text="word:N", color=color)
    return alt.layer(base.mark_area(opacity=0.25).encode(y2="foot:Q"), base.mark_line(strokeWidth=1.2), words)


def rounded(value: float) -> str:
    """Three significant digits, without an exponent below a million."""
    return f"{value:.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def over(clock: Clock) -> alt.X:
    """The axis of time."""
    title = "step" if clock.unit == "step" else f"time ({clock.unit})"
    scale = alt.Scale(domain=[0, float(clock.time[-1])], nice=False)
    return alt.X("t:Q", title=title, scale=scale, axis=alt.Axis(tickCount=7))


def around(values: Spread, missing: float, mean: str, low: str, high: str) -> Row:
    """Return the mean in percent and one standard deviation around it, by these names, or around `missing` if there is none."""
    side = values.deviation or missing
    return {mean: 100 * values.mean, low: 100 * (values.mean - side), high: 100 * (values.mean + side)}


# Added to the layer that has the legend: in another layer Vega-Lite would not let the legend be clicked.
PICK = alt.selection_point(name="pick", fields=["label"], bind="legend", toggle="true")


def picked(shown: float = 1.0, faded: float = 0.15) -> Any:
    """Return an opacity of `shown` for labels picked in the legend, and `faded` for the other labels."""
    return alt.when(PICK).then(alt.value(shown)).otherwise(alt.value(faded))


def coloured(kinds: Sequence[Look], **legend: Any) -> alt.Color:
    """The colours of looks."""
    return colours({kind.label: kind.colour for kind in kinds}, **legend)


def level(y: float, scale: alt.Scale, chart: alt.Chart) -> alt.Chart:
    """A thin line across the chart."""
    line: alt.Chart = chart.mark_rule(color=QUIET, strokeWidth=0.8).encode(y=alt.YDatum(y, scale=scale))
    return line


def alone(chart: Any, description: str, labels: Sequence[str]) -> alt.TopLevelMixin:
    """A chart of one panel."""
    return finished(chart.properties(width=WIDTH, height=HEIGHT), description, labels)
