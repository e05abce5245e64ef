"""How the time of a training step grows with steps, units, batch and open ratio, from a `phased bench cpu` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from phased.pictures.save import save
from phased.pictures.style import INK, QUIET, UNITS, WIDTH, styled

AXES = {
    "T": ("steps", "one sequence, 110 units"),
    "H": ("units", "8 sequences of 300 steps"),
    "B": ("sequences", "sequences of 300 steps, 110 units"),
    "ratio_on": ("open ratio", "16 sequences of 300 steps, 110 units"),
}


class Measured(NamedTuple):
    """One point of a panel: the size, and the seconds of a training step; `peer` is nn.LSTM's, if measured."""

    size: float
    ours: float
    peer: float | None


def save_growth(measured: Mapping[str, Any], folder: Path) -> list[Path]:
    """Save four panels of a benchmark's growth as `growth.png` and `.svg`, and the first panel, for the README, as `speed`."""
    figure_of = {axis: points(measured, axis) for axis in AXES}
    with styled():
        steps = draw_growth({"T": figure_of["T"]})
        return [*save(draw_growth(figure_of), folder, "growth"), *save(steps, folder, "speed")]


def points(measured: Mapping[str, Any], axis: str) -> list[Measured]:
    """The measurements along one axis."""
    rows = [row for row in measured["growth"] if row["axis"] == axis]
    return [Measured(row["work"][axis], row["sparse"], row["nn.LSTM"]) for row in rows]


def draw_growth(measured: Mapping[str, Sequence[Measured]]) -> Figure:
    """A panel for each axis, with logarithmic axes: the time of ours and of nn.LSTM."""
    rows, columns = (2, 2) if len(measured) > 1 else (1, 1)
    figure = Figure(figsize=(WIDTH, 2.3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, axis in zip(panels.flat, measured, strict=True):
        label, title = AXES[axis]
        ours = [(point.size, 1e3 * point.ours) for point in measured[axis]]
        peer = [(point.size, 1e3 * point.peer) for point in measured[axis] if point.peer is not None]
        for line, colour, name in ((peer, QUIET, "nn.LSTM"), (ours, UNITS[0], "PhasedLSTM, leak=0")):
            axes.plot([x for x, _ in line], [y for _, y in line], color=colour, marker="o", markersize=3)
            if axis == "T" and line:
                side = ("right", "bottom", -6) if name == "nn.LSTM" else ("left", "top", 6)
                where = {"ha": side[0], "va": side[1], "xytext": (side[2], -side[2]), "textcoords": "offset points"}
                axes.annotate(name, line[:2][-1], color=colour, **where)
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
