"""Drawing the comparison of simulated recordings with real ones."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from phased.pictures.annotate import caption, panel, plain_logarithm
from phased.pictures.style import FAINT, INK, QUIET, UNITS, WIDTH
from phased_lab.paper.camera.compare import EVERY, Comparison
from phased_lab.runs.descriptor import Array

REAL, SIMULATED = INK, UNITS[0]
INTERVALS = np.geomspace(0.5, 300.0, 52)  # ms: bins
SHOWN = 330  # ms


def draw_camera(found: Comparison) -> Figure:
    """Events per recording and class, polarity, rate, last event, and intervals between events of a pixel."""
    figure = Figure(figsize=(WIDTH, 4.9), layout="constrained")
    (scatter, classes, falls), (rate, last, intervals) = figure.subplots(2, 3)
    _scatter(scatter, found)
    _classes(classes, found)
    bins = np.linspace(0.46, 0.54, 41)
    _outlines(falls, found, "falls", bins, "share where the light falls", "{:.1%}")
    falls.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panel(falls, "c", "Polarity")
    _rate(rate, found)
    _outlines(last, found, "last", np.arange(296.0, 321.0), "last event (ms)", "{:.1f}")
    panel(last, "e", "Last event")
    _intervals(intervals, found)
    handles = [Line2D([], [], color=colour, label=label) for colour, label in ((REAL, "real"), (SIMULATED, "simulated"))]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, handlelength=1.8, columnspacing=1.4)
    caption(
        figure,
        f"{len(found.real.events)} real recordings of N-MNIST, and simulated ones of the same digits. (c, e) Means and standard "
        f"deviations over recordings. (d) Mean over recordings; {found.of_rates:.1%} of the events would have to move to another "
        "bin for equal rates. (f) Between two consecutive events of a pixel; each bin is 13 % longer than the one before.",
    )
    return figure


def _scatter(axes: Axes, found: Comparison) -> None:
    real, simulated = found.real.events, found.simulated.events
    high = 1.05 * max(real.max(), simulated.max())
    axes.plot([0, high], [0, high], color=QUIET, linewidth=0.6)
    axes.scatter(real, simulated, s=4, color=SIMULATED, alpha=0.35, linewidth=0)
    axes.set_xlim(0, high)
    axes.set_ylim(0, high)
    axes.set_aspect("equal")
    words = f"correlation {found.of_events:.3f}\nmean {real.mean():.0f} and {simulated.mean():.0f}"
    axes.text(0.05, 0.97, words, transform=axes.transAxes, va="top", fontsize=7)
    axes.set_xlabel("real")
    axes.set_ylabel("simulated")
    panel(axes, "a", "Events per recording")


def _classes(axes: Axes, found: Comparison) -> None:
    real, simulated = found.real.per_class, found.simulated.per_class
    digits = np.arange(10)
    axes.bar(digits - 0.2, real, 0.38, color=REAL, alpha=0.75)
    axes.bar(digits + 0.2, simulated, 0.38, color=SIMULATED)
    furthest = np.nanmax(np.abs(simulated / real - 1))
    axes.set_ylim(0, 1.25 * np.nanmax([real, simulated]))
    axes.text(0.97, 0.97, f"at most {furthest:.1%} apart", transform=axes.transAxes, ha="right", va="top", fontsize=7)
    axes.set_xticks(digits)
    axes.set_xlabel("digit")
    panel(axes, "b", "Events per class")


def _outlines(axes: Axes, found: Comparison, name: str, bins: Array, label: str, form: str) -> None:
    """The distributions of one number of each recording; those beyond the bins are in the first and the last."""
    for height, (of, colour) in enumerate(((found.real, REAL), (found.simulated, SIMULATED))):
        values = getattr(of, name)
        axes.hist(values.clip(bins[0], bins[-1]), bins.tolist(), histtype="step", color=colour, linewidth=1.2)
        words = f"{form.format(values.mean())} ± {form.format(values.std())}"
        axes.text(0.97, 0.97 - 0.09 * height, words, transform=axes.transAxes, ha="right", va="top", color=colour, fontsize=7)
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
    axes.set_xlabel(label)
    axes.set_ylabel("recordings")


def _rate(axes: Axes, found: Comparison) -> None:
    edges = np.arange(len(found.real.rate) + 1) * EVERY
    axes.stairs(found.real.rate, edges, color=FAINT, fill=True)
    axes.stairs(found.real.rate, edges, color=REAL, linewidth=1.0)
    axes.stairs(found.simulated.rate, edges, color=SIMULATED, linewidth=1.2)
    axes.set_xlim(0, SHOWN)
    axes.set_xticks([0, 100, 200, 300])
    axes.set_xlabel("time (ms)")
    axes.set_ylabel("events in 10 ms")
    panel(axes, "d", "The three saccades")


def _intervals(axes: Axes, found: Comparison) -> None:
    for height, (of, colour) in enumerate(((found.real, REAL), (found.simulated, SIMULATED))):
        share = np.histogram(of.intervals, INTERVALS)[0] / len(of.intervals)
        axes.stairs(100 * share, INTERVALS, color=colour, linewidth=1.2)
        words = f"median {np.median(of.intervals):.1f} ms"
        axes.text(0.97, 0.97 - 0.09 * height, words, transform=axes.transAxes, ha="right", va="top", color=colour, fontsize=7)
    axes.set_xscale("log")
    axes.set_xlim(INTERVALS[0], INTERVALS[-1])
    plain_logarithm(axes.xaxis)
    axes.set_xticks([1, 3, 10, 30, 100])
    axes.set_xlabel("interval (ms)")
    axes.set_ylabel("% of the intervals")
    panel(axes, "f", "Intervals of a pixel")
