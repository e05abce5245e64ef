"""The page's interactive charts of results: bars, learning curves, accuracy against updates."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import cycle, islice

import altair as alt

from phased.pictures.style import INK
from phased_lab.report.groups import Group
from phased_lab.report.html import vega
from phased_lab.report.looks import Look, by_variant, label

LINE = 14  # characters per line of a condition's label below its bars
# Vega's names of shapes, and their characters in a legend.
SHAPES = {"circle": "●", "square": "■", "triangle-up": "▲", "diamond": "◆", "triangle-down": "▼", "cross": "✚"}


def bars(groups: Sequence[Group]) -> vega.Spec:
    """Bars from chance to the mean, whiskers of one standard deviation, a dot per seed, a line for the paper."""
    about = groups[0].experiment
    chance = 100 * (about.chance or 0.0)
    looks = by_variant(groups)
    kinds = list(dict.fromkeys(looks))
    rows: vega.Rows = []
    dots: vega.Rows = []
    for group, look in zip(groups, looks, strict=True):
        words = "\n".join(textwrap.wrap(about.condition(group.condition), LINE))
        row = {"condition": words, "label": look.label, "seeds": group.test.n}
        rows.append(row | _bar(group))
        dots += [row | {"seed": run.seed, "test": vega.percent(run.test)} for run in group.records if math.isfinite(run.test)]
    conditions = list(dict.fromkeys(row["condition"] for row in rows))
    lines = alt.Axis(labelAngle=0, labelExpr="split(datum.label, '\\n')", ticks=False)
    # Keeps a few bars narrow on a wide page.
    outer = max(0.2, 0.8 - 0.2 * len(conditions))
    x = alt.X("condition:N", sort=conditions, title=None, axis=lines, scale=alt.Scale(paddingInner=0.2, paddingOuter=outer))
    beside = alt.XOffset("label:N", sort=[kind.label for kind in kinds], scale=alt.Scale(paddingInner=0.1))
    scale = alt.Scale(domain=[min([chance - 2, *(dot["test"] - 2 for dot in dots)]), 102], nice=False)
    tooltip = [
        alt.Tooltip("label:N", title="model"),
        alt.Tooltip("condition:N"),
        alt.Tooltip("mean:Q", title="mean, %", format=".2f"),
        alt.Tooltip("spread:N", title="standard deviation"),
        alt.Tooltip("seeds:Q"),
        alt.Tooltip("paper:N", title="paper, %"),
    ]
    base = vega.named("rows").encode(x=x, xOffset=beside, opacity=vega.if_picked(1.0, 0.2), tooltip=tooltip)
    bar = base.mark_bar().encode(
        y=alt.Y("mean:Q", title="test accuracy (%)", scale=scale), y2=alt.Y2Datum(chance), color=vega.colours(kinds)
    )
    whisker = base.mark_rule(color=INK, strokeWidth=1.2).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    paper = (
        base.mark_tick(color=INK, thickness=2).encode(y=alt.Y("paper:Q", scale=scale)).transform_filter("isValid(datum.paper)")
    )
    about_seed = ["label:N", "condition:N", "seed:Q", alt.Tooltip("test:Q", title="%")]
    seeds = vega.named("dots").mark_circle(size=16, color="white", stroke=INK, strokeWidth=0.7, opacity=1)
    seeds = seeds.encode(x=x, xOffset=beside, y=alt.Y("test:Q", scale=scale), tooltip=about_seed)
    layers = alt.layer(vega.level(chance, scale), bar, paper, whisker, seeds).add_params(vega.pick())
    return vega.spec(layers, "Test accuracy of each model under each condition", {"rows": rows, "dots": dots})


def _bar(group: Group) -> dict[str, float | str | None]:
    test, claim = group.test, group.claim
    paper = None if claim is None else vega.percent(claim.value)
    if test.deviation is None:
        return {"mean": vega.percent(test.mean), "low": None, "high": None, "spread": "one seed, no spread", "paper": paper}
    low, high = vega.percent(test.mean - test.deviation), vega.percent(test.mean + test.deviation)
    return {"mean": vega.percent(test.mean), "low": low, "high": high, "spread": f"{100 * test.deviation:.2f}", "paper": paper}


def learning(groups: Sequence[Group], looks: Sequence[Look], lowest: float | None, field: str = "test") -> vega.Spec:
    """Learning curves: the mean over seeds and a band from minimum to maximum.

    `lowest` is the lowest accuracy on the axis, in percent. If it is None, the metric is an error, on a logarithmic axis. With
    the field "test_loss" the test loss is drawn, on a linear axis.
    """
    unit = 1.0 if lowest is None else 100.0
    rows: vega.Rows = []
    for group, look in zip(groups, looks, strict=True):
        for epoch, mean, low, high in zip(*(column.tolist() for column in group.curve(field)), strict=True):
            numbers = {"mean": vega.short(unit * mean), "low": vega.short(unit * low), "high": vega.short(unit * high)}
            rows.append({"epoch": int(epoch), "label": look.label, "seeds": group.test.n} | numbers)
    kinds = list(dict.fromkeys(looks))
    dash = alt.Scale(domain=[kind.label for kind in kinds], range=[list(kind.dash) for kind in kinds])
    last = max((row["epoch"] for row in rows), default=1)  # seeds may have no epoch in common
    # Fewer than ten epochs have a tick each; Vega's default would add fractions.
    epochs = alt.Axis(format="d", values=list(range(1, last + 1))) if last < 10 else alt.Axis(format="d", tickCount=7)
    tested = groups[0].experiment.tested
    if field == "test_loss":
        scale, axis, title = alt.Scale(zero=True), alt.Axis(), "test loss"
    elif lowest is not None:
        scale, axis, title = alt.Scale(domain=[lowest, 101], nice=False), alt.Axis(), "test accuracy (%)"
    else:
        scale, axis, title = alt.Scale(type="log"), alt.Axis(format="~g", tickCount=4), "test mean squared error"
    tips = [
        alt.Tooltip(f"{field}:Q", title=word) for field, word in (("low", "minimum"), ("high", "maximum"), ("seeds", "seeds"))
    ]
    base = vega.named("rows").encode(
        x=alt.X("epoch:Q", title="epoch", axis=epochs, scale=alt.Scale(nice=False)), color=vega.colours(kinds)
    )
    band = base.mark_area().encode(y=alt.Y("low:Q", scale=scale), y2="high:Q", opacity=vega.if_picked(0.16, 0.02))
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("mean:Q", title=", ".join(filter(None, (title, tested))), scale=scale, axis=axis),
        strokeDash=alt.StrokeDash("label:N", scale=dash, legend=None),
        opacity=vega.if_picked(1.0, 0.15),
    )
    # Invisible points, for the tooltips.
    points = base.mark_circle(size=90, opacity=0).encode(
        y=alt.Y("mean:Q", scale=scale), tooltip=["label:N", "epoch:Q", "mean:Q", *tips]
    )
    about = groups[0].experiment
    levels = [unit * level for level in (*([] if about.chance is None else [about.chance]), *about.levels.values())]
    levels = levels if field == "test" else []
    layers = alt.layer(*(vega.level(y, scale) for y in levels), band, line, points).add_params(vega.pick())
    return vega.spec(layers, "Test metric over training, mean and range over seeds", {"rows": rows})


def settings_looks(groups: Sequence[Group]) -> list[Look]:
    """The looks of the groups, with short labels."""
    return [look._replace(label=label(group)) for group, look in zip(groups, by_variant(groups), strict=True)]


def tradeoff(groups: Sequence[Group]) -> vega.Spec:
    """Accuracy against updates: a point per setting, whiskers of one standard deviation, small dots for seeds."""
    looks = settings_looks(groups)
    rows: vega.Rows = []
    dots: vega.Rows = []
    for group, look in zip(groups, looks, strict=True):
        x, y = group.updates, group.test
        numbers = {"updates": x.mean, "test": y.mean}
        numbers |= {"left": x.mean - (x.deviation or 0.0), "right": x.mean + (x.deviation or 0.0)}
        numbers |= {"low": y.mean - (y.deviation or 0.0), "high": y.mean + (y.deviation or 0.0)}
        rows.append({"label": look.label, "seeds": y.n} | {field: vega.percent(value) for field, value in numbers.items()})
        for run in group.records:
            share = 1.0 if run.updates is None else run.updates
            dots.append({"label": look.label, "seed": run.seed, "updates": vega.percent(share), "test": vega.percent(run.test)})
    lowest = min([100.0, *(dot["updates"] for dot in dots if dot["updates"])])
    log = alt.Scale(type="log", domain=[0.8 * lowest, 110], nice=False)
    ticks = alt.Axis(values=[0.5, 1, 2, 5, 10, 20, 50, 100], format="~g")
    shapes = alt.Scale(domain=[look.label for look in looks], range=list(islice(cycle(SHAPES), len(looks))))
    y_scale = alt.Scale(zero=False)
    tips = [alt.Tooltip("updates:Q", title="updates, %"), alt.Tooltip("test:Q", title="accuracy, %")]
    base = vega.named("rows").encode(color=vega.colours(looks), opacity=vega.if_picked(1.0, 0.15))
    across = base.mark_rule().encode(x=alt.X("left:Q", scale=log), x2="right:Q", y=alt.Y("test:Q", scale=y_scale))
    along = base.mark_rule().encode(x=alt.X("updates:Q", scale=log), y=alt.Y("low:Q", scale=y_scale), y2="high:Q")
    point = base.mark_point(filled=True, size=110).encode(
        x=alt.X("updates:Q", title="updates (% of all units x steps)", axis=ticks, scale=log),
        y=alt.Y("test:Q", title="test accuracy (%)", scale=y_scale),
        shape=alt.Shape("label:N", scale=shapes, legend=None),
        tooltip=["label:N", *tips, "seeds:Q"],
    )
    seeds = vega.named("dots").mark_circle(size=14).encode(color=vega.colours(looks), opacity=vega.if_picked(0.5, 0.1))
    seeds = seeds.encode(x=alt.X("updates:Q", scale=log), y=alt.Y("test:Q", scale=y_scale), tooltip=["label:N", "seed:Q", *tips])
    layers = alt.layer(seeds, across, along, point).add_params(vega.pick())
    return vega.spec(layers, "Test accuracy against the share of updates", {"rows": rows, "dots": dots})
