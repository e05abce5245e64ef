"""The page's interactive charts of gates: before and after training, and the open units over time."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from phased.pictures.style import INK, QUIET, UNITS
from phased_lab.report import names
from phased_lab.report.gates import bends, by_period, is_open, of_units, openness, some_units, three_units
from phased_lab.report.groups import Group
from phased_lab.report.html import vega
from phased_lab.runs.descriptor import Clock
from phased_lab.runs.record import Gates, Record


def periods(rows: vega.Rows, colour: str) -> vega.Spec:
    """Each unit's period before and after training; the parameter `which` is the index of the group shown."""
    numbers = [row[field] for row in rows for field in ("b", "a") if row[field] and row[field] > 0]
    ends = [{"b": end, "a": end} for end in (min(numbers), max(numbers))] if numbers else []
    log, ticks = alt.Scale(type="log", nice=False), alt.Axis(format="~g", tickCount=5)
    x = alt.X("b:Q", title="period before", scale=log, axis=ticks)
    y = alt.Y("a:Q", title="period after", scale=log, axis=ticks)
    line = vega.named("ends").mark_line(color=QUIET, strokeWidth=1).encode(x=x, y=y)
    points = _shown_units().mark_circle(size=22, opacity=0.45, color=colour).encode(x=x, y=y, tooltip=_unit_tooltip())
    return vega.spec(
        alt.layer(line, points).add_params(_which(0)), "Periods before and after training, one dot per unit", {"ends": ends}
    )


def ratios(rows: vega.Rows, colour: str) -> vega.Spec:
    """Each unit's open ratio after training against its period; the line is the mean before, the dashed line after."""
    log, ticks = alt.Scale(type="log", nice=False), alt.Axis(format="~g", tickCount=5)
    zero = alt.Scale(domain=[0, 1.05 * max([0.1, *(row["r"] for row in rows if row["r"])])], nice=False)
    points = (
        _shown_units()
        .mark_circle(size=22, opacity=0.45, color=colour)
        .encode(
            x=alt.X("a:Q", title="period after", scale=log, axis=ticks),
            y=alt.Y("r:Q", title="open ratio after", scale=zero),
            tooltip=_unit_tooltip(),
        )
    )
    began = _shown_units().mark_rule(color=QUIET).encode(y=alt.Y("mean(o):Q", scale=zero))
    ended = _shown_units().mark_rule(color=INK, strokeDash=[4, 3]).encode(y=alt.Y("mean(r):Q", scale=zero))
    return vega.spec(alt.layer(points, began, ended).add_params(_which(0)), "Open ratios after training against periods", {})


def units(groups: Sequence[Group]) -> vega.Rows:
    """The data of `periods` and `ratios`, a row per unit: group, seed, period and open ratio before and after."""
    rows: vega.Rows = []
    for place, group in enumerate(groups):
        for run in group.records:
            if run.before is not None and run.after is not None:
                before, after = (of_units(gates, some_units(gates)) for gates in (run.before, run.after))
                columns = zip(before.period, after.period, before.ratio_on, after.ratio_on, strict=True)
                # Keys of one letter keep the page small.
                rows += [
                    {"g": place, "s": run.seed, "b": vega.short(b), "a": vega.short(a), "o": vega.short(o), "r": vega.short(r)}
                    for b, a, o, r in columns
                ]
    return rows


def _shown_units() -> alt.Chart:
    """The rows of the selected group; both charts share the data set `units`."""
    return vega.named("units").transform_filter("datum.g == which && datum.a > 0 && datum.b > 0")


def _unit_tooltip() -> list[alt.Tooltip]:
    titles = {"s": "seed", "b": "period before", "a": "period after", "o": "open ratio before", "r": "open ratio after"}
    return [alt.Tooltip(f"{field}:Q", title=title) for field, title in titles.items()]


def _which(value: int) -> alt.Parameter:
    return alt.param(name="which", value=value)


def raster(record: Record, clock: Clock) -> vega.Spec:
    """The open units at every sample, darker with more openness; `which` is 0 before training, 1 after."""
    rows: vega.Rows = []
    for when, gates in enumerate((record.before, record.after)):
        if gates is not None:
            rows += [row | {"w": when} for row in _open_events(by_period(gates), clock)]
    units, no_grid = len(record.after.period) if record.after else 0, alt.Axis(grid=False)
    chart = vega.named("rows").transform_filter("datum.w == which")
    chart = chart.transform_calculate(e=f"datum.t + {float(np.median(np.diff(clock.time))):g}", v="datum.u + 1").mark_rect()
    chart = chart.encode(
        x=_time(clock),
        x2="e:Q",
        y=alt.Y("u:Q", title="unit, from short to long period", scale=alt.Scale(domain=[0, units], nice=False), axis=no_grid),
        y2="v:Q",
        color=alt.Color("k:Q", scale=alt.Scale(scheme="reds", domain=[-0.5, 1]), legend=None),
        tooltip=[alt.Tooltip(f"{field}:Q", title=word) for field, word in (("u", "unit"), ("t", "time"), ("k", "openness"))],
    )
    spec = vega.spec(chart.add_params(_which(1)), "Open units over time", {"rows": rows}, height=340)
    # Thousands of marks are drawn faster on a canvas than as SVG.
    return spec | {"usermeta": {"embedOptions": {"renderer": "canvas"}}}


def share_open(gates: Gates, clock: Clock) -> float:
    """The share of open units among all units x samples."""
    return float(is_open(gates, clock.time).mean())


def _open_events(gates: Gates, clock: Clock) -> vega.Rows:
    units = some_units(gates)
    shown = of_units(gates, units)
    k = openness(shown, clock.time)
    events = np.argwhere(is_open(shown, clock.time)).tolist()
    return [{"t": vega.short(clock.time[step]), "u": units[row], "k": round(float(k[step, row]), 2)} for step, row in events]


def three(record: Record, clock: Clock) -> vega.Spec:
    """The openness of three units of a trained network over time, in rows: a short, a medium and a long period."""
    if record.after is None:
        raise ValueError(f"the run '{record.name}' has no gates to draw. Choose one of a network with time gates.")
    gates = by_period(record.after)
    gates = of_units(gates, three_units(gates))
    time = np.linspace(clock.time[0], clock.time[-1], 4000)
    k = openness(gates, time)
    rows: vega.Rows = []
    labels: vega.Rows = []
    for row, period in enumerate(gates.period):
        foot = 1.6 * row
        word = f"period {names.rounded(period)} {'steps' if clock.unit == 'step' else clock.unit}"
        labels.append({"t": 0, "foot": foot, "top": foot + 1.25, "label": f"{row}", "word": word})
        points = zip(*(column.tolist() for column in bends(time, k[:, row])), strict=True)
        rows += [{"t": vega.short(t), "foot": foot, "k": vega.short(foot + value), "label": f"{row}"} for t, value in points]
    tall = alt.Scale(domain=[-0.1, 1.6 * len(labels)], nice=False)
    colour = alt.Color("label:N", scale=alt.Scale(domain=["0", "1", "2"], range=list(UNITS)), legend=None)
    base = vega.named("rows").encode(x=_time(clock), color=colour)
    area = base.mark_area(opacity=0.25).encode(y=alt.Y("foot:Q", scale=tall, axis=None), y2="k:Q")
    line = base.mark_line(strokeWidth=1.2).encode(y=alt.Y("k:Q", scale=tall, axis=None))
    text = vega.named("labels").mark_text(align="left", dx=4, fontSize=12, fontWeight="bold")
    text = text.encode(x=_time(clock), y=alt.Y("top:Q", scale=tall, axis=None), text="word:N", color=colour)
    return vega.spec(
        alt.layer(area, line, text), "Openness of three units over time", {"rows": rows, "labels": labels}, height=200
    )


def _time(clock: Clock) -> alt.X:
    title = "step" if clock.unit == "step" else f"time ({clock.unit})"
    return alt.X("t:Q", title=title, scale=alt.Scale(domain=[0, float(clock.time[-1])], nice=False), axis=alt.Axis(tickCount=7))
