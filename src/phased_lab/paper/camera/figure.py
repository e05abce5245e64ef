"""Drawing the comparison of simulated recordings with real ones."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from phased.data.recording import NMNIST
from phased.pictures.annotate import caption, panel, plain_logarithm
from phased.pictures.style import FAINT, INK, QUIET, UNITS, WIDTH
from phased_lab.paper.camera.compare import EVERY, Comparison, Statistics
from phased_lab.paper.trace import Array

REAL, SIMULATED, AGAIN = INK, UNITS[0], UNITS[1]
INTERVALS = np.geomspace(0.5, 300.0, 52)  # ms: bins
SHOWN = 330  # ms


def finding(found: Comparison) -> str:
    """The comparison in one sentence."""
    real, simulated = found.real, found.simulated
    return (
        f"{len(real.events)} recordings of the same digits: {simulated.events.mean():.0f} events simulated, "
        f"{real.events.mean():.0f} real, correlation {found.of_events:.3f}; {simulated.falls.mean():.1%} and "
        f"{real.falls.mean():.1%} of them where the light falls; last event at {simulated.last.mean():.1f} and "
        f"{real.last.mean():.1f} ms; maps correlate {found.of_maps[0]:.3f}, those of two simulations {found.of_maps[1]:.3f}."
    )


def draw_statistics(found: Comparison) -> Figure:
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


def draw_maps(found: Comparison) -> Figure:
    """Events at each pixel in the three saccades, of the recording that correlates like most; and all correlations."""
    figure = Figure(figsize=(WIDTH, 3.7), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.3, 1.0), wspace=0.03)[0]
    with_real, with_again = found.of_each_map
    which = int(np.argsort(with_real)[len(with_real) // 2])
    rows = (("real", found.real, REAL), ("simulated", found.simulated, SIMULATED), ("again", found.again, AGAIN))
    grid = left.subplots(3, 3, sharex=True, sharey=True)
    signed = [_signed(of, which) for _, of, _ in rows]
    most = np.abs(signed).max()
    for line, maps, (word, of, colour) in zip(grid, signed, rows, strict=True):
        for saccade, (axes, picture) in enumerate(zip(line, maps, strict=True)):
            axes.imshow(picture, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
            axes.set_xlabel(f"{of.maps[which, saccade].sum():.0f} events", fontsize=6.5, color=QUIET, labelpad=2)
        line[0].set_ylabel(word, color=colour)
    for saccade, axes in enumerate(grid[2]):
        axes.set_xlabel(f"{axes.get_xlabel()}\nsaccade {saccade + 1}")
    panel(grid[0, 0], "a", f"A {found.real.label[which]}, pixel by pixel")
    _correlations(right.subplots(), with_real, with_again, found)
    caption(
        figure,
        "(a) The recording with the median correlation of real and simulated. Red: more events where the light rises, blue: "
        "where it falls. Again: a second simulation of the same digit, with other noise and thresholds. (b) Correlation over "
        "all pixels, polarities and saccades of a recording; the numbers are those of all recordings together.",
    )
    return figure


def _signed(of: Statistics, which: int) -> Array:
    """Events where the light rises less those where it falls, (3, height, width)."""
    maps = of.maps[which].astype(np.float64).reshape(3, NMNIST.height, NMNIST.width, 2)
    return np.asarray(maps[..., 0] - maps[..., 1])


def _correlations(axes: Axes, with_real: Array, with_again: Array, found: Comparison) -> None:
    """Their distributions, with the correlation of all maps together."""
    bins = np.linspace(0.8, 1.0, 41).tolist()  # those of lower correlations are in the first bin
    words = ("real and simulated", "simulated twice")
    for height, (values, word, all_of, colour) in enumerate(
        zip((with_real, with_again), words, found.of_maps, (SIMULATED, AGAIN), strict=True)
    ):
        values = values.clip(bins[0])
        axes.hist(values, bins, histtype="stepfilled", color=colour, alpha=0.15)
        axes.hist(values, bins, histtype="step", color=colour, linewidth=1.2, label=word)
        axes.text(0.02, 0.97 - 0.07 * height, f"{word}: {all_of:.3f}", transform=axes.transAxes, va="top", color=colour)
    axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    axes.set_xlabel("correlation of the maps of a recording")
    axes.set_ylabel("recordings")
    panel(axes, "b", "All recordings")
