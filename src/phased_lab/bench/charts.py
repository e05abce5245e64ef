"""Charts of benchmarks: growth of the time of a training step, speed-up over cuDNN, and accuracy on public tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import altair as alt

from phased.pictures.style import INK, OTHERS, QUIET, UNITS
from phased_lab.bench.cases import Result, Row, read
from phased_lab.bench.cuda import FLOAT32, SIZES
from phased_lab.bench.table_models import BUDGETS, CELLS, PEERS
from phased_lab.bench.table_sets import ERRORS, SETS
from phased_lab.bench.tables import Mean, by_model
from phased_lab.bench.work import LEAKY, OURS, PEER
from phased_lab.report.charts import level
from phased_lab.report.theme import AXIS, WIDTH, Figure, colours, data, finished

AXES = {
    "T": ("steps", "One sequence, 110 units"),
    "H": ("units", "8 sequences of 300 steps"),
    "B": ("sequences", "Sequences of 300 steps, 110 units"),
    "ratio_on": ("open ratio", "16 sequences of 300 steps, 110 units"),
}
NAMES = {PEER: "nn.LSTM", OURS: "PhasedLSTM, leak=0"}
PANELS = {
    f"Leak {own.split()[1]}, nn.LSTM in {number}": (own, peer)
    for peer, number in ((FLOAT32, "float32"), (PEER, "TF32"))
    for own in (OURS, LEAKY)
}
SHADES = ("#f0a3ac", "#d1495b", "#8f2436", "#4a0f1a")  # from few sequences to many
SIZE: dict[str, Any] = {"width": WIDTH // 2 - AXIS, "height": 200}  # of a panel
LOG = alt.Scale(type="log", nice=False, padding=10)
THIRD = WIDTH // 3 - AXIS  # the width of one of three panels
CURVE = "recurrent network with a budget"
COLOURS = (UNITS[0], INK, QUIET, "#f0a3ac", *OTHERS)
DOTS = {**dict(zip((*CELLS, *PEERS), COLOURS, strict=False)), CURVE: UNITS[1]}  # the colour of each model
DECADES = [digit * 10.0**power for power in range(-2, 5) for digit in (1, 3)]  # labels of a vertical axis


def figures(folder: Path) -> list[Figure]:
    """The charts of the files of a folder."""
    draws = {"cpu.json": draw_growth, "cuda.json": draw_speedup, "tables*.json": draw_tables}
    return [figure for pattern, draw in draws.items() if (results := read_all(folder, pattern)) for figure in draw(results)]


def read_all(folder: Path, pattern: str) -> list[Result]:
    """The results in files of a folder. A file that is not one of a benchmark is named in a warning."""
    found = []
    for file in sorted(folder.glob(pattern)):
        try:
            found.append(read(file))
        except ValueError as error:
            warnings.warn(f"{error} It is skipped.", stacklevel=2)
    return found


def draw_growth(results: Sequence[Result]) -> list[Figure]:
    """Draw the time of a training step of PhasedLSTM and nn.LSTM over steps, and over all quantities, on logarithmic axes."""
    (result,) = results
    drawn = [panel for panel in (draw_panel(result, axis) for axis in AXES) if panel is not None]
    note, about = machine(result, "processor"), "Time of a training step of PhasedLSTM and nn.LSTM"
    return [
        Figure(name, title, note, finished(alt.concat(*shown, columns=2), about, list(NAMES.values())))
        for name, title, shown in (
            ("speed", "A training step of longer and longer sequences", drawn[:1]),
            ("growth", "A training step as the work grows", drawn),
        )
        if shown
    ]


def draw_panel(result: Result, axis: str) -> alt.Chart | None:
    """The time of a training step as one quantity grows."""
    rows = [
        {"size": case["work"][axis], "label": label, "ms": 1e3 * Row(case, label).median(name)}
        for case in result["cases"]
        for name, label in NAMES.items()
        if case["part"] == f"growth of {axis}" and name in case["seconds"]
    ]
    word, title = AXES[axis]
    sizes = alt.Axis(values=sorted({row["size"] for row in rows}), format="~s" if axis == "T" else "~g", labelFlush=False)
    chart = alt.Chart(data(rows), title=title).mark_line(point=True).properties(**SIZE) if rows else None
    return chart and chart.encode(
        x=alt.X("size:Q", title=word, scale=LOG, axis=sizes),
        y=alt.Y("ms:Q", title="training step (ms)", scale=LOG, axis=alt.Axis(values=DECADES, format="~g")),
        color=colours(dict(zip(NAMES.values(), (QUIET, UNITS[0]), strict=True))),
        tooltip=["label:N", alt.Tooltip("size:Q", title=word), alt.Tooltip("ms:Q", format=".3g")],
    )


def draw_speedup(results: Sequence[Result]) -> list[Figure]:
    """Draw the speed-up of a training step over nn.LSTM: a panel per peer and leak, a line per batch size."""
    (result,) = results
    rows = [
        {"panel": panel, "units": case["work"]["H"], "batch": case["work"]["B"], "times": row.median(peer) / row.median(own)}
        for panel, (own, peer) in PANELS.items()
        for case in result["cases"]
        for row in [Row(case, "")]
        if case["part"] == SIZES and own in case["seconds"]
    ]
    if not rows:
        return []
    labels = {batch: f"{batch} sequences" for batch in sorted({row["batch"] for row in rows})}
    base = alt.Chart(data({**row, "label": labels[row["batch"]]} for row in rows)).properties(**SIZE)
    scale = alt.Scale(type="log", base=2, nice=False, padding=10)
    lines = base.mark_line(point=True).encode(
        x=alt.X("units:Q", scale=LOG, axis=alt.Axis(values=sorted({row["units"] for row in rows}), labelFlush=False)),
        y=alt.Y("times:Q", title="times faster than nn.LSTM", scale=scale, axis=alt.Axis(format="~g")),
        color=colours(dict(zip(labels.values(), SHADES, strict=False))),
        tooltip=["label:N", "units:Q", alt.Tooltip("times:Q", format=".2f")],
    )
    chart = alt.layer(level(1, scale, base), lines).facet(alt.Facet("panel:N", sort=list(PANELS), title=None), columns=2)
    note = "A training step in float32, 500 steps, 8 features, r_on 0.05. TF32 is nn.LSTM's default. "
    done = finished(chart, "Times faster than nn.LSTM against units, for several numbers of sequences", list(labels.values()))
    return [Figure("speedup", "Times faster than nn.LSTM on a GPU", note + machine(result, "gpu"), done)]


def draw_tables(results: Sequence[Result]) -> list[Figure]:
    """Draw the scores of models on tables against the time of a fit, and the scores of budgets against the updates."""
    points: list[dict[str, Any]] = [
        {
            "set": name,
            "label": model,
            "score": found.mean,
            "seconds": mean(fit["cpu"] for fit in fits),
            "updates": 100 * mean(fit["updates"] or 0.0 for fit in fits),
        }
        for name, model, fits in by_model([case for result in results for case in result["cases"]])
        if (found := Mean.of(fits, SETS[name].score)) is not None
    ]
    if not points:
        return []
    seconds = [point["seconds"] for point in points]
    log = alt.Scale(type="log", domain=[min(seconds) / 1.5, max(seconds) * 1.5], nice=False)  # one for all panels
    time = alt.X("seconds:Q", title="CPU time of a fit (s)", scale=log, axis=alt.Axis(values=DECADES, format="~g"))
    updates = alt.X("updates:Q", title="updates of units (%)", scale=alt.Scale(domain=[0, 105], nice=False))
    models = [point for point in points if point["label"] not in BUDGETS]
    budgets = [point | {"label": CURVE} for point in points if point["label"] in BUDGETS]
    with_budgets = {point["set"] for point in budgets}
    curves = budgets + [point for point in points if point["label"] == "default" and point["set"] in with_budgets]
    note = f"Means over folds and seeds. {machine(results[0], 'processor')}"
    return [
        Figure(name, title, note, panels(shown, title, x))
        for name, title, shown, x in (
            ("accuracy", "Accuracy on tables, and the time of a fit", models, time),
            ("budgets", "Accuracy on tables with budgets of updates", curves, updates),
        )
        if shown
    ]


def panels(points: Sequence[Mapping[str, Any]], about: str, x: alt.X) -> alt.TopLevelMixin:
    """A panel for each table: a dot for each score, better ones above, and lines between the dots of a label."""
    labels = {label: colour for label, colour in DOTS.items() if any(point["label"] == label for point in points)}
    made = []
    for name in dict.fromkeys(point["set"] for point in points):
        own, score = [point for point in points if point["set"] == name], SETS[name].score
        low, high = (of(point["score"] for point in own) for of in (min, max))
        apart = max(0.15 * (high - low), 0.01 * high)
        scale = alt.Scale(domain=[low - apart, high + apart], nice=False, reverse=score in ERRORS)
        chart = alt.Chart(data(own), title=name).mark_line(point=alt.OverlayMarkDef(size=110), strokeWidth=1)
        made.append(
            chart.properties(width=THIRD, height=150).encode(
                x=x,
                y=alt.Y("score:Q", title=score, scale=scale, axis=alt.Axis(tickCount=4)),
                color=colours(labels),
                tooltip=["label:N", *(alt.Tooltip(f"{field}:Q", format=".4g") for field in ("score", "seconds", "updates"))],
            )
        )
    return finished(alt.concat(*made, columns=3), about, list(labels))


def machine(result: Result, device: str) -> str:
    """Name the device and the version of torch."""
    return f"{result['machine'][device]}; torch {result['machine']['torch']}."
