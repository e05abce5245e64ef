"""Learning curves: the mean over seeds, and a band from minimum to maximum, as in the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from phased.pictures.annotate import beside, caption, end_labels, legend, plain, plain_logarithm
from phased.pictures.style import FAINT, QUIET, WIDTH
from phased_lab.report.groups import Group, lowest
from phased_lab.report.looks import Look, by_condition, by_variant, machines_note, seeds_note


def draw_conditions(groups: Sequence[Group]) -> Figure:
    """Test accuracy over training, a panel for each condition."""
    figure, panels = _panels(groups, "test", percent=True)
    for axes in panels:
        _accuracy(axes, groups, last=axes is panels[-1])
    panels[0].set_ylabel(f"test accuracy (%){_tested(groups)}")
    return figure


def draw_loss(groups: Sequence[Group]) -> Figure:
    """Test loss over training, a panel for each condition, as in the paper's Figure 6."""
    figure, panels = _panels(groups, "test_loss", percent=False)
    for axes in panels:
        axes.set_ylim(bottom=0)
        _epochs(axes)
    panels[0].set_ylabel(f"test loss{_tested(groups)}")
    return figure


def _panels(groups: Sequence[Group], field: str, percent: bool) -> tuple[Figure, list[Axes]]:
    """Curves of all groups, a panel for each condition."""
    conditions = list(dict.fromkeys(group.condition for group in groups))
    figure = Figure(figsize=(WIDTH, 2.9), layout="constrained")
    panels = list(figure.subplots(1, len(conditions), sharey=True, squeeze=False)[0])
    looks = by_variant(groups)
    for axes, condition in zip(panels, conditions, strict=True):
        for group, look in zip(groups, looks, strict=True):
            if group.condition == condition:
                _curve(axes, group, look, percent, field)
        axes.set_title(plain(groups[0].experiment.condition(condition)))
    kinds = dict.fromkeys(looks)
    legend(figure, [panels[0].plot([], [], color=look.colour, dashes=look.dash, label=look.label)[0] for look in kinds])
    _note(figure, groups)
    return figure, panels


def _tested(groups: Sequence[Group]) -> str:
    """What the test has, for the label of an axis."""
    words = groups[0].experiment.tested
    return f", {plain(words)}" if words else ""


def draw_accuracy(groups: Sequence[Group]) -> Figure:
    """Test accuracy over training under one condition, each line labelled at its end."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    looks = by_variant(groups)
    for group, look in zip(groups, looks, strict=True):
        _curve(axes, group, look, percent=True)
    _accuracy(axes, groups, last=False)
    axes.set_ylabel(f"test accuracy (%){_tested(groups)}")
    _name_ends(axes, groups, looks, percent=True)
    _note(figure, groups)
    return figure


def draw_error(groups: Sequence[Group]) -> Figure:
    """Mean squared error over training, one shade for each condition, on a logarithmic axis."""
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    looks = by_condition(groups)
    axes.set_yscale("log")
    for group, look in zip(groups, looks, strict=True):
        _curve(axes, group, look, percent=False)
    axes.set_ylabel("test mean squared error")
    _epochs(axes)
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 0.3))
    plain_logarithm(axes.yaxis)
    levels = groups[0].experiment.levels
    for value in levels.values():
        axes.axhline(value, color=FAINT, linewidth=1.0, zorder=0)
    _name_ends(axes, groups, looks, percent=False)
    meaning = "; ".join(f"{value:.3f}, {words}" for words, value in levels.items())
    _note(figure, groups, *([f"Grey lines: {meaning}."] if meaning else []))
    return figure


def _curve(axes: Axes, group: Group, look: Look, percent: bool, field: str = "test") -> None:
    epoch, *columns = group.curve(field)
    # An error is drawn on a logarithmic axis, which has positive numbers only.
    mean, low, high = (100.0 * column if percent else np.where(column > 0, column, np.nan) for column in columns)
    axes.fill_between(epoch, low, high, color=look.colour, alpha=0.16, linewidth=0)
    # A single epoch needs a marker, because a line of one point is invisible.
    marker = "o" if len(epoch) == 1 else ""
    axes.plot(epoch, mean, color=look.colour, dashes=look.dash, marker=marker, markersize=3)


def _accuracy(axes: Axes, groups: Sequence[Group], last: bool) -> None:
    about = groups[0].experiment
    levels = [*([] if about.chance is None else [about.chance]), *about.levels.values()]
    for level in levels:
        axes.axhline(100 * level, color=FAINT, linewidth=1.0, zorder=0)
    chance = 100 * (about.chance or 0.0)
    axes.set_ylim(np.fmin(100 * lowest(groups), chance) - 2, 101.5)
    axes.set_yticks(range(-(-round(chance) // 10) * 10, 101, 10))
    _epochs(axes)
    if last and about.chance is not None:
        beside(axes, chance, "chance", QUIET)


def _epochs(axes: Axes) -> None:
    last = axes.dataLim.x1
    axes.set_xlim(0, last if np.isfinite(last) else 1)  # not finite if no seed has a finite number
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, steps=[1, 2, 5, 10]))
    axes.set_xlabel("epoch")


def _name_ends(axes: Axes, groups: Sequence[Group], looks: Sequence[Look], percent: bool) -> None:
    """Label each line at its end with its name and its result."""
    scale, (low, high) = (100.0 if percent else 1.0), axes.get_ylim()
    heights, words = [], []
    for group, look in zip(groups, looks, strict=True):
        end = scale * group.test.mean
        heights.append(float(np.clip(end, low, high)) if np.isfinite(end) else low)
        number = "diverged" if not np.isfinite(end) else f"{end:.1f} %" if percent else f"{end:.2g}"
        words.append(f"{plain(look.label)}: {number}")
    end_labels(axes, heights, words, [look.colour for look in looks])


def _note(figure: Figure, groups: Sequence[Group], *more: str) -> None:
    caption(
        figure,
        *more,
        f"Line: mean, band: least to greatest over seeds. {seeds_note(groups)}, {groups[0].scale} scale.",
        machines_note([record for group in groups for record in group.records]),
    )


def draw_learning(groups: Sequence[Group]) -> Figure:
    """The learning curves of one section, in the form for its metric and conditions."""
    if groups[0].experiment.metric == "error":
        return draw_error(groups)
    return draw_accuracy(groups) if len({group.condition for group in groups}) == 1 else draw_conditions(groups)
