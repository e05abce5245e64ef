"""Labels on the lines themselves, and distances marked as in a drawing; they spare the reader a legend."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from phased.report.style import INK, QUIET

# A line of text as a part of the axes' height; right for axes of two to three inches, roomy for taller ones.
LINE_HEIGHT = 0.065


def panel(axes: Axes, letter: str, title: str) -> None:
    """Head a panel with its letter and what it shows."""
    axes.set_title(rf"$\bf{{{letter}}}$  {title}")


def distance(axes: Axes, start: float, end: float, height: float, label: str) -> None:
    """Mark the distance between two points of the x axis with a double arrow, its name below."""
    arrow = {"arrowstyle": "<|-|>", "mutation_scale": 5, "linewidth": 0.7, "color": INK, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end, height), (start, height), arrowprops=arrow)
    axes.annotate(
        label, ((start + end) / 2, height), xytext=(0, -4), textcoords="offset points", ha="center", va="top", fontsize=9
    )


def drop_line(axes: Axes, x: float, low: float, high: float) -> None:
    """A thin dotted line from a point of a curve down to where it is measured."""
    axes.vlines(x, low, high, color=QUIET, linewidth=0.6, linestyle=(0, (1.5, 1.5)))


def end_labels(axes: Axes, heights: Sequence[float], labels: Sequence[str], colours: Sequence[str]) -> None:
    """Name each line right of where it ends, in its colour; names that would touch are moved apart. Set the limits first."""
    low, high = axes.get_ylim()
    apart = LINE_HEIGHT * (high - low)
    right = axes.get_xlim()[1]
    for place, label, colour in zip(spread(heights, apart), labels, colours, strict=True):
        axes.annotate(
            label, (right, place), xytext=(6, 0), textcoords="offset points", color=colour, va="center", annotation_clip=False
        )


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """The heights moved as little as it takes to be `apart` from each other, in the same order."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    groups: list[tuple[float, list[int]]] = []  # (centre, members): labels that touch move as one block
    for line in order:
        groups.append((heights[line], [line]))
        while len(groups) > 1 and _gap(groups[-2], groups[-1], apart) < 0:
            above, below = groups.pop(), groups.pop()
            members = below[1] + above[1]
            groups.append((sum(heights[m] for m in members) / len(members), members))
    places = [0.0] * len(heights)
    for centre, members in groups:
        for position, line in enumerate(members):
            places[line] = centre + apart * (position - (len(members) - 1) / 2)
    return places


def _gap(below: tuple[float, list[int]], above: tuple[float, list[int]], apart: float) -> float:
    """The room left between two blocks of labels."""
    return (above[0] - below[0]) - apart * (len(below[1]) + len(above[1])) / 2
