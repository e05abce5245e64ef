"""Bars: test accuracy of each model under each condition, with the spread over seeds and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from phased.pictures.annotate import beside, caption, legend, plain
from phased.pictures.style import INK, QUIET, WIDTH
from phased_lab.report.groups import Group
from phased_lab.report.looks import Look, by_variant, machines_note, seeds_note, tests_words

ROOM = 0.84  # share of the distance between two conditions for the bars of one


def draw_bars(groups: Sequence[Group]) -> Figure:
    """Bars from chance to the mean, error bars of one standard deviation, a dot for each seed, a line for the paper."""
    about = groups[0].experiment
    chance = 100 * (about.chance or 0.0)
    figure = Figure(figsize=(WIDTH, 3.3), layout="constrained")
    axes = figure.subplots()
    conditions = list(dict.fromkeys(group.condition for group in groups))
    looks = by_variant(groups)
    kinds = list(dict.fromkeys(looks))
    width = min(ROOM / len(kinds), 0.25)
    for group, look in zip(groups, looks, strict=True):
        place = conditions.index(group.condition) + (kinds.index(look) - (len(kinds) - 1) / 2) * width
        _bar(axes, group, look, place, width, chance)
    axes.axhline(chance, color=QUIET, linewidth=0.8)
    if about.chance is not None:
        beside(axes, chance, "chance", QUIET)
    axes.set_xticks(range(len(conditions)), [plain(about.condition(condition)) for condition in conditions])
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(conditions) - 0.45)
    axes.set_ylim(min([chance - 5, *(100 * group.test.low - 2 for group in groups if group.test.n)]), 104)
    axes.set_yticks(range(-(-round(chance) // 10) * 10, 101, 10))
    axes.set_ylabel("test accuracy (%)")
    legend(figure, [*(Patch(color=kind.colour, label=kind.label) for kind in kinds), *_marks(groups)])
    epochs = sorted({group.epochs for group in groups})
    length = f"{epochs[0]} epochs" if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]} epochs"
    caption(
        figure,
        f"Accuracy in {tests_words(groups)} of {length}, {groups[0].scale} scale. {seeds_note(groups)}; bar: mean, whisker: "
        "standard deviation, dot: one seed.",
        machines_note([record for group in groups for record in group.records]),
    )
    return figure


def _bar(axes: Axes, group: Group, look: Look, place: float, width: float, chance: float) -> None:
    test = group.test
    if not test.n:
        axes.annotate("diverged", (place, chance), rotation=90, ha="center", va="bottom", color=look.colour, fontsize=6.5)
        return
    mean = 100 * test.mean
    axes.bar(place, mean - chance, 0.9 * width, bottom=chance, color=look.colour, zorder=2)
    if test.deviation is not None:
        axes.errorbar(place, mean, 100 * test.deviation, color=INK, linewidth=0.9, capsize=2.5, capthick=0.9, zorder=4)
    offsets = np.linspace(-0.2, 0.2, test.n) * width if test.n > 1 else [0.0]
    axes.scatter(place + np.array(offsets), 100 * np.array(test.values), 7, color="white", edgecolor=INK, linewidth=0.5, zorder=5)
    below = min(mean, chance, 100 * test.low)
    axes.annotate(f"{mean:.1f}", (place, below), xytext=(0, -4), textcoords="offset points", ha="center", va="top", fontsize=6.5)
    if group.claim is not None:
        axes.hlines(100 * group.claim.value, place - 0.47 * width, place + 0.47 * width, color=INK, linewidth=1.2, zorder=3)


def _marks(groups: Sequence[Group]) -> list[Line2D]:
    if not any(group.claim for group in groups):
        return []
    return [Line2D([], [], color=INK, linewidth=1.2, label="paper, read off its plot")]
