"""The picture of a classified recording: its events over time, their sum, and the confidence of all classes below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from phased.classifier import Answer, Moment
from phased.data.recordings import Recording
from phased.pictures import style
from phased.pictures.annotate import caption, end_labels, plain
from phased.pictures.style import INK, OTHERS, QUIET, UNITS

POLARITY = UNITS[0], UNITS[1]  # of events with bit 0 and with bit 1
CLASSES = UNITS[2], OTHERS[1], OTHERS[2]  # the classes with the highest probability at the end, and at any time
MOST_DOTS = 20_000


def draw_confidence(recording: Recording, moments: Sequence[Moment], classes: Sequence[str], answer: Answer, name: str) -> Figure:
    """Events as dots, row against time; the summed frame; and lines of probability, the most probable in colour."""
    figure = style.figure(4.6)
    grid = figure.add_gridspec(2, 2, width_ratios=(3.2, 1.0), height_ratios=(1.0, 1.0))
    above = figure.add_subplot(grid[0, 0])
    below = figure.add_subplot(grid[1, 0], sharex=above)
    _raster(above, recording)
    above.set_title(f"{plain(name)}: {plain(answer.label)} ({answer.confidence:.1%})")
    _frame(figure.add_subplot(grid[0, 1]), recording)
    _probabilities(below, moments, classes)
    caption(
        figure,
        f"{answer.events:,} events; {answer.updates:,} updates of units, {answer.updates / answer.possible:.1%} of those of a "
        "dense network. Dots: polarity 0 red, polarity 1 blue.",
    )
    return figure


def _raster(axes: Axes, recording: Recording) -> None:
    """A dot for each event, or for a regular selection of them if they are many."""
    some = slice(None, None, max(1, -(-len(recording) // MOST_DOTS)))
    time, row, polarity = recording.time[some] / 1000, recording.y[some], recording.polarity[some]
    size = float(np.clip(6000 / len(time), 0.4, 6.0))
    for bit, colour in enumerate(POLARITY):
        chosen = polarity == bool(bit)
        # As pixels also in SVG and PDF: thousands of dots would make these files large.
        axes.scatter(time[chosen], row[chosen], s=size, color=colour, linewidths=0, alpha=0.7, rasterized=True)
    axes.set_ylim(recording.sensor.height - 0.5, -0.5)
    axes.set_ylabel("row of the pixel")
    axes.tick_params(labelbottom=False)


def _frame(axes: Axes, recording: Recording) -> None:
    """The number of events of each pixel, both polarities together."""
    width, height = recording.sensor
    frame: Any = np.zeros((height, width))
    np.add.at(frame, (recording.y, recording.x), 1.0)
    axes.imshow(frame, cmap=LinearSegmentedColormap.from_list("events", ["white", INK]), interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.set_title("sum of the events")


def _probabilities(axes: Axes, moments: Sequence[Moment], classes: Sequence[str]) -> None:
    """A line for each class; the last one and its strongest rivals are in colour and labelled."""
    time = np.array([moment.time for moment in moments])
    values = 100 * np.stack([moment.probabilities for moment in moments])
    axes.set_xlim(0.0 if time[0] < 1000 else time[0], max(time[-1], time[0] + 1e-3))
    axes.set_ylim(-2, 102)
    best = int(values[-1].argmax())
    rivals = [int(each) for each in np.argsort(-values.max(0)) if each != best][: len(CLASSES) - 1]
    coloured = dict(zip([best, *rivals], CLASSES, strict=False))
    for index in [each for each in range(len(classes)) if each not in coloured] + list(coloured)[::-1]:
        colour, alpha = (coloured[index], 1.0) if index in coloured else (QUIET, 0.5)
        axes.plot(time, values[:, index], color=colour, alpha=alpha, linewidth=1.8 if index == best else 1.0)
    labels = [f"{plain(classes[each])}: {values[-1, each]:.0f} %" for each in coloured]
    end_labels(axes, [values[-1, each] for each in coloured], labels, list(coloured.values()))
    axes.set_xlabel("time (ms)", color=INK)
    axes.set_ylabel("probability (%)")
