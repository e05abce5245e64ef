"""Charts of benchmarks: growth of the time of a training step, and speed-up over cuDNN."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import altair as alt

from phased.pictures.style import QUIET, UNITS
from phased_lab.bench.cases import Result, Row, read
from phased_lab.bench.cuda import FLOAT32, SIZES
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
DECADES = [digit * 10.0**power for power in range(-2, 5) for digit in (1, 3)]  # labels of a vertical axis


def figures(folder: Path) -> list[Figure]:
    """The charts of the files of a folder. A file that is not one of a benchmark is named in a warning."""
    found = []
    for name, draw in (("cpu", draw_growth), ("cuda", draw_speedup)):
        if (folder / f"{name}.json").exists():
            try:
                found += draw(read(folder / f"{name}.json"))
            except ValueError as error:
                warnings.warn(f"{error} It is skipped.", stacklevel=2)
    return found


def draw_growth(result: Result) -> list[Figure]:
    """Draw the time of a training step of PhasedLSTM and nn.LSTM over steps, and over all quantities, on logarithmic axes."""
    panels = [panel for panel in (draw_panel(result, axis) for axis in AXES) if panel is not None]
    note, about = machine(result, "processor"), "Time of a training step of PhasedLSTM and nn.LSTM"
    return [
        Figure(name, title, note, finished(alt.concat(*shown, columns=2), about, list(NAMES.values())))
        for name, title, shown in (
            ("speed", "A training step of longer and longer sequences", panels[:1]),
            ("growth", "A training step as the work grows", panels),
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


def draw_speedup(result: Result) -> list[Figure]:
    """Draw the speed-up of a training step over nn.LSTM: a panel per peer and leak, a line per batch size."""
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


def machine(result: Result, device: str) -> str:
    """Name the device and the version of torch."""
    return f"{result['machine'][device]}; torch {result['machine']['torch']}."
