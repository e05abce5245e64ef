"""How many times faster than cuDNN a training step is, by units, sequences and precision, from a `phased bench cuda` file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from phased.pictures.annotate import caption, legend, panel
from phased.pictures.save import save
from phased.pictures.style import INK, QUIET, WIDTH, styled

Lines = Mapping[int, Mapping[int, float]]
"""The ratio by the number of sequences and the number of units."""

PANELS = {
    (peer, leak): f"Leak {leak:g}, nn.LSTM in {precision}"
    for peer, precision in (("nn.LSTM float32", "float32"), ("nn.LSTM", "TF32"))
    for leak in (0.0, 0.001)
}
SHADES = ("#f0a3ac", "#d1495b", "#8f2436", "#4a0f1a")  # from few sequences to many
TICKS = (0.5, 1, 2, 4, 8, 16, 32)


def save_speedup(measured: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw `speedup.png` and `speedup.svg`. A file without these measurements, as of `--quick`, has no picture."""
    if "grid" not in measured:
        return []
    lines = {which: ratios(measured, *which) for which in PANELS}
    machine = measured["machine"]
    with styled():
        return save(draw_speedup(lines, f"{machine['gpu']}; torch {machine['torch']}"), folder, "speedup")


def ratios(measured: Mapping[str, Any], against: str, leak: float) -> Lines:
    """The measurements against a peer, with a leak."""
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for row in measured["grid"]:
        if row["leak"] == leak:
            found[row["work"]["B"]][row["work"]["H"]] = row[against]["median"] / row["ours"]["median"]
    return found


def draw_speedup(lines: Mapping[tuple[str, float], Lines], machine: str) -> Figure:
    """A panel for each peer and leak: a line for each number of sequences. Above 1 the layer is faster."""
    figure = Figure(figsize=(WIDTH, 5.8), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for letter, axes, (which, found) in zip("abcd", panels.flat, lines.items(), strict=True):
        draw_lines(axes, found)
        panel(axes, letter, PANELS[which])
    for axes in panels[:, 0]:
        axes.set_ylabel("times faster than nn.LSTM", color=INK)
    for axes in panels[-1]:
        axes.set_xlabel("units")
    legend(figure, panels[0, 0].get_legend_handles_labels()[0])
    caption(figure, "A training step in float32, 500 steps, 8 features, r_on 0.05. TF32 is nn.LSTM's default.", machine)
    return figure


def draw_lines(axes: Axes, found: Lines) -> None:
    """The lines of a panel."""
    axes.axhline(1.0, color=QUIET, linewidth=0.8, zorder=1)
    for (batch, line), colour in zip(sorted(found.items()), cycle(SHADES), strict=False):
        units = sorted(line)
        axes.plot(units, [line[each] for each in units], color=colour, marker="o", markersize=3, label=f"{batch} sequences")
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = sorted({units for line in found.values() for units in line})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.yaxis.set_major_locator(FixedLocator(TICKS))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
