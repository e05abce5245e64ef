"""Statistics of recordings, and how far those of two sets of recordings of the same digits agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phased.data.camera import simulate
from phased.data.recordings import Recordings
from phased_lab.paper.camera.data import Pairs, load
from phased_lab.runs.descriptor import Array

MOST = 1000  # recordings that are compared

SACCADES = ((0, 105), (105, 210), (210, 400))  # ms: the digit rests between them; what comes later belongs to the third
EVERY = 10  # ms: the bins of the rate
BINS = 34  # of them: no recording of N-MNIST is longer than 340 ms
INTERVALS = (0, 1, 2, 3, 4, 8, 16, 50, 400)  # ms: the bins in which intervals between events of a pixel are compared


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is compared about R recordings. Times are in ms.

    Args:
        label: the class of each recording, (R,).
        events: the number of its events, (R,).
        falls: the share of its events where the light falls, (R,).
        last: the time of its last event, (R,).
        middle: the mean time of its events in each saccade, (R, 3).
        rate: events of a recording in each 10 ms, the mean over recordings, (34,).
        intervals: times between two consecutive events of a pixel, of all recordings, (N,).
        maps: events at each address, (y * 34 + x) * 2 + polarity, in each saccade, (R, 3, 2312).
    """

    label: NDArray[np.int64]
    events: Array
    falls: Array
    last: Array
    middle: Array
    rate: Array
    intervals: Array
    maps: NDArray[np.float32]

    @classmethod
    def of(cls, recordings: Recordings) -> Statistics:
        """The statistics of recordings, none of them empty."""
        count, addresses = len(recordings), recordings.sensor.addresses
        events = np.diff(recordings.offset.cpu().numpy())
        who = np.repeat(np.arange(count), events)
        address = recordings.address.cpu().numpy().astype(np.int64)
        time = recordings.time.cpu().numpy() / 1000
        saccade = np.searchsorted([end for _, end in SACCADES[:-1]], time, side="right")
        mapped = np.bincount((who * 3 + saccade) * addresses + address, minlength=count * 3 * addresses)
        maps = mapped.astype(np.float32).reshape(count, 3, addresses)
        spent = np.bincount(who * 3 + saccade, time, minlength=count * 3).reshape(count, 3)
        pixel = who * addresses + (address >> 1)
        order = np.argsort(pixel, kind="stable")  # the events of a pixel stay in the order of time
        return cls(
            label=recordings.label.cpu().numpy(),
            events=events.astype(np.float64),
            falls=np.bincount(who, address & 1, minlength=count) / events,
            last=time[recordings.offset.cpu().numpy()[1:] - 1],
            middle=spent / np.maximum(maps.sum(-1), 1),
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

    @property
    def shares(self) -> Array:
        """The share of the intervals in each of the bins of `INTERVALS`."""
        return np.histogram(self.intervals, INTERVALS)[0] / len(self.intervals)


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


def run(pairs: Pairs | None = None) -> Comparison:
    """Compare real recordings, by default at most 1,000 of those that PHASED_DATA has, with simulated ones of the same digits."""
    recordings, images = pairs or load(MOST)
    simulated, again = (Statistics.of(simulate(images, recordings.label, seed)) for seed in (0, 1))
    return Comparison(Statistics.of(recordings), simulated, again)
