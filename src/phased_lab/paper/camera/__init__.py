"""The event camera in software: statistics of its recordings and of real ones of the same digits, compared and drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phased import pictures
from phased.data.camera import simulate
from phased.data.recordings import Recordings
from phased_lab.paper.camera.data import load
from phased_lab.runs.descriptor import Array, Drawn, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 1000  # recordings that are compared

RESTS = (105, 210)  # ms: the digit rests between its three saccades
EVERY = 10  # ms: the bins of the rate
BINS = 34  # of them: no recording of N-MNIST is longer than 340 ms

INTERVALS = np.geomspace(0.5, 300.0, 52)  # ms: drawn bins of the intervals between events of a pixel
SHOWN = 330  # ms of the rate


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of R recordings. Times are in ms."""

    label: NDArray[np.int64]  # the class of each recording, (R,)
    events: Array  # the number of its events, (R,)
    falls: Array  # the share of its events where the light falls, (R,)
    last: Array  # the time of its last event, (R,)
    rate: Array  # events of a recording in each 10 ms, the mean over recordings, (34,)
    intervals: Array  # times between two consecutive events of a pixel, of all recordings, (N,)
    maps: NDArray[np.float32]  # events at each address, (y * 34 + x) * 2 + polarity, in each saccade, (R, 3, 2312)

    @classmethod
    def of(cls, recordings: Recordings) -> Statistics:
        """The statistics of recordings, none of them empty."""
        count, addresses = len(recordings), recordings.sensor.addresses
        events = np.diff(recordings.offset.cpu().numpy())
        who = np.repeat(np.arange(count), events)
        address = recordings.address.cpu().numpy().astype(np.int64)
        time = recordings.time.cpu().numpy() / 1000
        saccade = np.searchsorted(RESTS, time, side="right")
        mapped = np.bincount((who * 3 + saccade) * addresses + address, minlength=count * 3 * addresses)
        maps = mapped.astype(np.float32).reshape(count, 3, addresses)
        pixel = who * addresses + (address >> 1)
        order = np.argsort(pixel, kind="stable")  # the events of a pixel stay in the order of time
        return cls(
            label=recordings.label.cpu().numpy(),
            events=events.astype(np.float64),
            falls=np.bincount(who, address & 1, minlength=count) / events,
            last=time[recordings.offset.cpu().numpy()[1:] - 1],
            rate=np.bincount((time // EVERY).astype(np.int64).clip(max=BINS - 1), minlength=BINS) / count,
            intervals=np.diff(time[order])[np.diff(pixel[order]) == 0],
            maps=maps,
        )

    @property
    def per_class(self) -> Array:
        """The mean number of events of each class; not a number for a class without recordings, (10,)."""
        counts = np.bincount(self.label, minlength=10)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.bincount(self.label, self.events, minlength=10) / counts)


def correlation(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Pearson's correlation of two arrays, element by element."""
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


@dataclass(frozen=True, eq=False)
class Comparison:
    """Statistics of real recordings, of simulated ones of the same digits, and of the same digits simulated a second time."""

    real: Statistics
    simulated: Statistics
    again: Statistics

    @property
    def of_events(self) -> float:
        """Correlation of the events per recording, real and simulated."""
        return correlation(self.real.events, self.simulated.events)

    @cached_property
    def of_maps(self) -> tuple[float, float]:
        """Correlation of all maps: real with simulated, and two simulations with each other, which noise limits."""
        return correlation(self.real.maps, self.simulated.maps), correlation(self.simulated.maps, self.again.maps)

    @property
    def of_rates(self) -> float:
        """The part of the events that would have to move to another 10 ms for equal rates."""
        real, simulated = (each.rate / each.rate.sum() for each in (self.real, self.simulated))
        return float(np.abs(real - simulated).sum() / 2)

    @property
    def finding(self) -> str:
        """The comparison in one sentence."""
        real, simulated = self.real, self.simulated
        return (
            f"{len(real.events)} recordings of the same digits: {simulated.events.mean():.0f} events simulated, "
            f"{real.events.mean():.0f} real, correlation {self.of_events:.3f}; {simulated.falls.mean():.1%} and "
            f"{real.falls.mean():.1%} of them where the light falls; last event at {simulated.last.mean():.1f} and "
            f"{real.last.mean():.1f} ms; maps correlate {self.of_maps[0]:.3f}, those of two simulations {self.of_maps[1]:.3f}."
        )


def run() -> Comparison:
    """Compare real recordings, at most 1,000 of those that PHASED_DATA has, with simulated ones of the same digits."""
    recordings, images = load(MOST)
    simulated, again = (Statistics.of(simulate(images, recordings.label, seed)) for seed in (0, 1))
    return Comparison(Statistics.of(recordings), simulated, again)


def draw_camera(found: Comparison) -> Figure:
    """Events per recording and class, polarity, rate, last event, and intervals between events of a pixel."""
    figure: Figure = pictures.figure(4.9)
    (scatter, classes, falls), (rate, last, intervals) = figure.subplots(2, 3)
    _scatter(scatter, found)
    _classes(classes, found)
    bins = np.linspace(0.46, 0.54, 41)
    _outlines(falls, found, "falls", bins, "share where the light falls", "{:.1%}")
    falls.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    pictures.panel(falls, "c", "Polarity")
    _rate(rate, found)
    _outlines(last, found, "last", np.arange(296.0, 321.0), "last event (ms)", "{:.1f}")
    pictures.panel(last, "e", "Last event")
    _intervals(intervals, found)
    lines = [scatter.plot([], [], color=colour, label=label)[0] for label, _, colour in both(found)]
    figure.legend(handles=lines, loc="outside upper left", ncols=2, frameon=False, handlelength=1.8, columnspacing=1.4)
    pictures.caption(
        figure,
        f"{len(found.real.events)} real recordings of N-MNIST, and simulated ones of the same digits. (c, e) Means and standard "
        f"deviations over recordings. (d) Mean over recordings; {found.of_rates:.1%} of the events would have to move to another "
        "bin for equal rates. (f) Between two consecutive events of a pixel; each bin is 13 % longer than the one before.",
    )
    return figure


def both(found: Comparison) -> tuple[tuple[str, Statistics, str], ...]:
    """The label, the statistics and the colour of the real and of the simulated recordings."""
    return ("real", found.real, pictures.INK), ("simulated", found.simulated, pictures.UNITS[0])


def _note(axes: Axes, words: str, row: int = 0, colour: str | None = None) -> None:
    """Write a line into the upper right corner of a panel."""
    colour = pictures.INK if colour is None else colour
    axes.text(0.97, 0.97 - 0.09 * row, words, transform=axes.transAxes, ha="right", va="top", color=colour, fontsize=7)


def _scatter(axes: Axes, found: Comparison) -> None:
    real, simulated = found.real.events, found.simulated.events
    high = 1.05 * max(real.max(), simulated.max())
    axes.plot([0, high], [0, high], color=pictures.QUIET, linewidth=0.6)
    axes.scatter(real, simulated, s=4, color=pictures.UNITS[0], alpha=0.35, linewidth=0)
    axes.set(xlim=(0, high), ylim=(0, high), aspect="equal", xlabel="real", ylabel="simulated")
    words = f"correlation {found.of_events:.3f}\nmean {real.mean():.0f} and {simulated.mean():.0f}"
    axes.text(0.05, 0.97, words, transform=axes.transAxes, va="top", fontsize=7)
    pictures.panel(axes, "a", "Events per recording")


def _classes(axes: Axes, found: Comparison) -> None:
    digits = np.arange(10)
    for (_, of, colour), side, alpha in zip(both(found), (-0.2, 0.2), (0.75, 1.0), strict=True):
        axes.bar(digits + side, of.per_class, 0.38, color=colour, alpha=alpha)
    real, simulated = found.real.per_class, found.simulated.per_class
    _note(axes, f"at most {np.nanmax(np.abs(simulated / real - 1)):.1%} apart")
    axes.set(ylim=(0, 1.25 * np.nanmax([real, simulated])), xticks=digits, xlabel="digit")
    pictures.panel(axes, "b", "Events per class")


def _outlines(axes: Axes, found: Comparison, name: str, bins: Array, label: str, form: str) -> None:
    """The distributions of one number of each recording; those beyond the bins are in the first and the last."""
    for row, (_, of, colour) in enumerate(both(found)):
        values = getattr(of, name)
        axes.hist(values.clip(bins[0], bins[-1]), bins.tolist(), histtype="step", color=colour, linewidth=1.2)
        _note(axes, f"{form.format(values.mean())} ± {form.format(values.std())}", row, colour)
    axes.set(ylim=(0, 1.3 * axes.get_ylim()[1]), xlabel=label, ylabel="recordings")


def _rate(axes: Axes, found: Comparison) -> None:
    edges = np.arange(BINS + 1) * EVERY
    axes.stairs(found.real.rate, edges, color=pictures.FAINT, fill=True)
    for (_, of, colour), width in zip(both(found), (1.0, 1.2), strict=True):
        axes.stairs(of.rate, edges, color=colour, linewidth=width)
    axes.set(xlim=(0, SHOWN), xticks=[0, 100, 200, 300], xlabel="time (ms)", ylabel="events in 10 ms")
    pictures.panel(axes, "d", "The three saccades")


def _intervals(axes: Axes, found: Comparison) -> None:
    for row, (_, of, colour) in enumerate(both(found)):
        share = np.histogram(of.intervals, INTERVALS)[0] / len(of.intervals)
        axes.stairs(100 * share, INTERVALS, color=colour, linewidth=1.2)
        _note(axes, f"median {np.median(of.intervals):.1f} ms", row, colour)
    axes.set(xscale="log", xlim=(INTERVALS[0], INTERVALS[-1]), xlabel="interval (ms)", ylabel="% of the intervals")
    pictures.plain_logarithm(axes.xaxis)
    axes.set_xticks([1, 3, 10, 30, 100])
    pictures.panel(axes, "f", "Intervals of a pixel")


@drawing(
    "The event camera in software",
    place=48,
    about="simulated recordings compared with real ones of the same digits; needs N-MNIST and MNIST",
)
def camera() -> Drawn:
    """Statistics of the recordings."""
    found = run()
    return Drawn({"camera": draw_camera(found)}, found.finding)
