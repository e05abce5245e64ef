"""How the time of a training step grows with steps, units, batch and open ratio, from a `phased bench cpu` file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from phased.report.save import save
from phased.report.style import INK, QUIET, UNITS, WIDTH, styled

AXES = {
    "T": ("steps", "one sequence, 110 units"),
    "H": ("units", "8 sequences of 300 steps"),
    "B": ("sequences", "sequences of 300 steps, 110 units"),
    "ratio_on": ("open ratio", "16 sequences of 300 steps, 110 units"),
}


def save_growth(file: Path, folder: Path) -> list[Path]:
    """Draw a benchmark's growth and write it as `growth.png` and `growth.svg`."""
    measured = json.loads(file.read_text())
    with styled():
        return save(draw_growth(measured), folder, "growth")


def draw_growth(measured: dict[str, Any]) -> Figure:
    """Four panels in logarithmic scales: ours and nn.LSTM's time for the same work."""
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    panels = figure.subplots(2, 2)
    for axes, (axis, (label, title)) in zip(panels.flat, AXES.items(), strict=True):
        rows = [row for row in measured["growth"] if row["axis"] == axis]
        ours = [(row["work"][axis], 1e3 * row["sparse"]) for row in rows]
        peer = [(row["work"][axis], 1e3 * row["nn.LSTM"]) for row in rows if row["nn.LSTM"] is not None]
        for points, colour, name in ((peer, QUIET, "nn.LSTM"), (ours, UNITS[0], "PhasedLSTM, leak 0")):
            x, y = zip(*points, strict=True)
            axes.plot(x, y, color=colour, marker="o", markersize=3)
            if axis == "T":
                side = ("right", "bottom", -6) if name == "nn.LSTM" else ("left", "top", 6)
                where = {"ha": side[0], "va": side[1], "xytext": (side[2], -side[2]), "textcoords": "offset points"}
                axes.annotate(name, (x[1], y[1]), color=colour, **where)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([x for x, _ in ours], [f"{x:g}" if x < 10_000 else f"{x / 1000:g}k" for x, _ in ours])
        axes.minorticks_off()
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.set_xlabel(label)
        axes.set_ylabel("training step (ms)", color=INK)
        axes.set_title(title)
    return figure
