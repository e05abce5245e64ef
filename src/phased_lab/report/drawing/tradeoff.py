"""Accuracy against updates: the accuracy of each setting of the gates, and its share of updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from phased.pictures.annotate import LINE_HEIGHT, caption, plain, spread
from phased.pictures.style import WIDTH
from phased_lab.report.groups import Group
from phased_lab.report.looks import colour as colour_of
from phased_lab.report.looks import label, machines_note, seeds_note

TICKS = (1, 2, 5, 10, 20, 50, 100)  # percent of all units x steps


def draw_tradeoff(groups: Sequence[Group]) -> Figure:
    """A point for each setting with standard deviations, small dots for seeds; a model without time gates is at 100 %."""
    shown = [group for group in groups if group.test.n and group.updates.n]
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    lowest = min((100 * group.updates.low for group in shown), default=1.0)
    axes.set_xlim(max(tick for tick in (0.1, 0.5, *TICKS) if tick <= max(lowest, 0.1)) * 0.9, 112)
    bottom = min((100 * group.test.low for group in shown), default=50.0)
    axes.set_ylim(bottom - min(2.0, max(0.5, 0.3 * (100 - bottom))), 100.5)
    axes.set_yticks([tick for tick in axes.get_yticks() if axes.get_ylim()[0] <= tick <= 100])
    heights = []
    to_axes = axes.transScale + axes.transLimits
    for group in shown:
        colour = colour_of(group)
        x, y = 100 * group.updates.mean, 100 * group.test.mean
        for record in group.records:
            share = 100.0 if record.updates is None else 100 * record.updates
            axes.plot(share, 100 * record.test, "o", color=colour, markersize=2.4, alpha=0.45, markeredgewidth=0)
        deviation = [None if side is None else 100 * side for side in (group.updates.deviation, group.test.deviation)]
        axes.errorbar(
            x,
            y,
            xerr=deviation[0],
            yerr=deviation[1],
            color=colour,
            marker="o",
            markersize=5,
            linewidth=0.9,
            markeredgecolor="white",
        )
        heights.append(float(np.clip(to_axes.transform((x, y))[1], 0.0, 1.0)))
    places = spread(heights, LINE_HEIGHT)
    too_high = max(0.0, max(places, default=0.0) - 1.0)
    for group, place in zip(shown, places, strict=True):
        colour = colour_of(group)
        axes.annotate(
            f"{100 * group.test.mean:.1f} %: {plain(label(group))}",
            (np.clip(100 * group.updates.mean, *axes.get_xlim()), np.clip(100 * group.test.mean, *axes.get_ylim())),
            xytext=(1.04, place - too_high),
            textcoords="axes fraction",
            va="center",
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6, "shrinkB": 4, "relpos": (0.0, 0.5)},
            annotation_clip=False,
        )
    low = axes.get_xlim()[0]
    axes.set_xticks([tick for tick in TICKS if tick >= low], [f"{tick}" for tick in TICKS if tick >= low])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("updates (% of all units x steps, on the test set)")
    axes.set_ylabel("test accuracy (%)")
    if shown:
        about, gated = shown[0].experiment, next(group for group in shown if group.gated)
        caption(
            figure,
            f"{about.condition(shown[0].condition).capitalize()}; without a name: {about.label(gated.model)}. "
            f"Point: mean, whiskers: standard deviation, dot: one seed. {seeds_note(shown)}, {shown[0].scale} scale, "
            f"after {max(group.epochs for group in shown)} epochs.",
            machines_note([record for group in shown for record in group.records]),
        )
    return figure
