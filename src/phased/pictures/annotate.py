"""Labels at the ends of lines, distances and captions of figures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from phased.pictures.style import INK, QUIET

# Height of a line of text as a fraction of the axes' height; for axes of two to three inches.
LINE_HEIGHT = 0.065

LONGEST_LABEL = 80  # characters


def plain(text: str) -> str:
    """A text of a record as a label: shortened if too long, without formulas."""
    return _literal(text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 3] + "...")


def _literal(text: str) -> str:
    """Escape dollar signs, between which matplotlib would typeset a formula, and bytes of names that are not UTF-8."""
    return text.replace("$", r"\$").encode(errors="backslashreplace").decode()


def panel(axes: Axes, letter: str, title: str) -> None:
    """Set the title of a panel: its letter and a text."""
    axes.set_title(rf"$\bf{{{letter}}}$  {title}")


def distance(axes: Axes, start: float, end: float, height: float, label: str) -> None:
    """Mark the distance between two points of the x axis with a double arrow and a label below it."""
    arrow = {"arrowstyle": "<|-|>", "mutation_scale": 5, "linewidth": 0.7, "color": INK, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end, height), (start, height), arrowprops=arrow)
    axes.annotate(
        label, ((start + end) / 2, height), xytext=(0, -4), textcoords="offset points", ha="center", va="top", fontsize=9
    )


def drop_line(axes: Axes, x: float, low: float, high: float) -> None:
    """A thin dotted vertical line."""
    axes.vlines(x, low, high, color=QUIET, linewidth=0.6, linestyle=(0, (1.5, 1.5)))


def end_labels(axes: Axes, heights: Sequence[float], labels: Sequence[str], colours: Sequence[str]) -> None:
    """Label each line at its right end, in its colour, without overlap. The limits of the axes must be set before."""
    to_axes = axes.transScale + axes.transLimits  # heights as fractions of the axes, for any scale
    right = axes.get_xlim()[1]
    places = [float(to_axes.transform((right, height))[1]) for height in heights]
    for place, label, colour in zip(spread(places, LINE_HEIGHT), labels, colours, strict=True):
        axes.annotate(
            label,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
        )


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """The heights, moved as little as possible to be at least `apart` from each other, in the same order."""
    order, steps, count = np.argsort(heights, kind="stable"), apart * np.arange(len(heights)), len(heights)
    left = np.asarray(heights)[order] - steps  # may not decrease: isotonic regression, by its max-min formula
    raised = [max(min(left[low:high].mean() for high in range(i + 1, count + 1)) for low in range(i + 1)) for i in range(count)]
    places = np.empty(count)
    places[order] = raised + steps
    return [float(place) for place in places]


def caption(figure: Figure, *lines: str) -> None:
    """A caption in small print below a figure. Long lines are wrapped at the figure's width."""
    width = int(21 * figure.get_figwidth())  # characters at this font size
    shown = "\n".join(textwrap.fill(line, width) for line in lines)
    figure.supxlabel(_literal(shown), x=0.01, ha="left", fontsize=6.5, color=QUIET, linespacing=1.4)


def plain_logarithm(axis: Axis) -> None:
    """Label a logarithmic axis 1, 2, 5, 10, 20, ..., or only with powers of ten if it has a wide range."""
    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
