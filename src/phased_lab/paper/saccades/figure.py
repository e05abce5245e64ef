"""Drawing Figure 5."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phased.pictures.annotate import caption, panel
from phased.pictures.style import INK, QUIET, UNITS, WIDTH
from phased_lab.paper.saccades.compute import Shown

ENDS = (0, 105, 210, 315)  # ms: the digit rests between the saccades
BRIGHTER, DARKER = UNITS[0], UNITS[1]


def draw_saccades(shown: Shown) -> Figure:
    """The movement, the events summed at each pixel, and the events in space and time."""
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    grid = figure.add_gridspec(1, 3, width_ratios=(1.0, 1.0, 1.7))
    _movement(figure.add_subplot(grid[0]), shown)
    _frame(figure.add_subplot(grid[1]), shown)
    _space_and_time(figure.add_subplot(grid[2], projection="3d"), shown)
    caption(
        figure,
        f"{shown.origin[0].upper()}{shown.origin[1:]}, {len(shown.recording)} events. (a) The digit's displacement on the "
        "sensor, estimated from real recordings. (b) Darker: more events. (c) A dot for each event; red: the pixel gets "
        "brighter, blue: darker.",
    )
    return figure


def _movement(axes: Axes, shown: Shown) -> None:
    """The digit's path, one colour for each of three saccades, with an arrow in the middle of each."""
    for number, colour in enumerate(UNITS):
        part = slice(ENDS[number], ENDS[number + 1] + 1)
        x, y = shown.path[part].T
        axes.plot(x, y, color=colour, linewidth=1.6)
        fastest = int(np.argmax(np.hypot(np.diff(x), np.diff(y))))
        arrow = {"arrowstyle": "-|>", "color": colour, "mutation_scale": 12, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x[fastest + 4], y[fastest + 4]), (x[fastest], y[fastest]), arrowprops=arrow)
        away = np.array([x[fastest], y[fastest]]) - shown.path.mean(0)
        place = shown.path.mean(0) + away * (1 + 1.1 / np.hypot(*away))
        axes.annotate(str(number + 1), place, color=colour, ha="center", va="center", fontweight="bold")
    axes.set_xlim(-4.6, 4.6)
    axes.set_ylim(5.0, -4.2)
    axes.set_xticks([-2, 0, 2])
    axes.set_aspect("equal")
    axes.set_xlabel("x (pixels)")
    axes.set_ylabel("y (pixels)")
    panel(axes, "a", "Three saccades")


def _frame(axes: Axes, shown: Shown) -> None:
    axes.imshow(shown.frame, cmap="Greys", interpolation="nearest")
    axes.set_xlabel("x (pixels)")
    axes.set_xticks([0, 10, 20, 30])
    axes.set_yticks([0, 10, 20, 30])
    panel(axes, "b", "Events summed")


def _space_and_time(axes: Any, shown: Shown) -> None:
    """A dot for each event; time runs to the right, and the digit stands upright. `axes` is three-dimensional."""
    events = shown.recording
    for falls, colour in ((False, BRIGHTER), (True, DARKER)):
        some = events.polarity == falls
        axes.scatter(
            events.time[some] / 1000,
            events.x[some],
            events.y[some],
            s=1.8,
            color=colour,
            alpha=0.75,
            linewidth=0,
            rasterized=True,
        )
    width, height = events.sensor
    axes.set_xlim(0, ENDS[-1])
    axes.set_ylim(0, width)
    axes.set_zlim(height, 0)
    axes.set_box_aspect((2.4, 1.0, 1.0), zoom=1.55)
    axes.view_init(elev=16, azim=-48)
    axes.set_xticks([0, 100, 200, 300])
    axes.set_yticks([0, 15, 30])
    axes.set_zticks([0, 15, 30])
    axes.tick_params(labelsize=6, pad=-2)
    axes.set_xlabel("time (ms)", labelpad=-4)
    axes.set_ylabel("x", labelpad=-8)
    axes.set_zlabel("y", labelpad=-8)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set_facecolor("white")
        axis.pane.set_edgecolor(QUIET)
        axis._axinfo["grid"].update({"linewidth": 0.3, "color": QUIET})
    axes.set_title(r"$\bf{c}$  Events in space and time", color=INK, y=1.0)
