"""Sine waves, sampled regularly or at random times: is the period, or are both periods, in the target range (Figs. 3, 4a)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from phased import check
from phased.learn.batch import Array, Batch, Split, generator, padded

Condition = Literal["standard", "high", "asynchronous"]
Source = Literal["paper", "authors"]
CONDITIONS: tuple[str, ...] = get_args(Condition)
SOURCES: tuple[str, ...] = get_args(Source)

RATE = {"standard": 1, "high": 10}  # samples per millisecond
TARGETS = ((5.0, 6.0), (13.0, 15.0))  # ms: target ranges of the periods of the first and of the second wave
SHORTEST, LONGEST = 1.0, 100.0  # ms: the range of all periods
STREAM = 0x51E5  # identifies this task's random numbers


class Waves(NamedTuple):
    """Sums of sine waves: periods in ms and phases in radians, both (waves, B)."""

    period: Array
    phase: Array

    def __call__(self, time: Array) -> Array:
        """Their values at these times in ms, (T, B) -> (T, B)."""
        value: Array = sum(np.sin(2 * np.pi * time / period + phase) for period, phase in zip(*self, strict=True))
        return value


@dataclass(frozen=True)
class Sines:
    """The frequency task; y is 1 where every wave's period is in its target range. All times are in ms.

    How we read the paper: "U(1,5) u U(6,100)" is uniform over the union of both intervals. The number of samples n and the
    duration are both U(15,125). "Standard" is n samples in n ms, "high" 10 n samples in n ms, "asynchronous" n samples at random
    times within a duration that is drawn independently.
    """

    condition: Condition = "asynchronous"
    waves: int = 1
    # "authors": periods of the other class are log-uniform over all periods, including, rarely, the target range.
    periods: Source = "paper"
    points: tuple[int, int] = (15, 125)
    duration: tuple[float, float] = (15.0, 125.0)

    def __post_init__(self) -> None:
        check.choice("condition", self.condition, CONDITIONS)
        check.choice("periods", self.periods, SOURCES)
        if self.waves not in (1, 2):
            raise ValueError(f"waves must be 1 or 2, got {self.waves!r}.")
        for end in self.points:
            check.size("points", end)
        check.interval("points", *self.points)
        check.interval("duration", *self.duration, positive=True)

    @property
    def features(self) -> int:
        """The amplitude."""
        return 1

    @property
    def classes(self) -> int:
        """Inside the target range, or outside."""
        return 2

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Half of the sequences are targets; each has its own period, phase, duration, start and times."""
        random = generator(STREAM, seed, split, epoch, index, size)
        wanted = random.permutation(np.arange(size) % 2 == 1)
        waves = Waves(self.draw_periods(random, wanted), random.uniform(0.0, 2 * np.pi, (self.waves, size)))
        time, lengths = self.draw_times(random, size)
        ranges = zip(waves.period, TARGETS, strict=False)
        y = np.logical_and.reduce([(low <= period) & (period <= high) for period, (low, high) in ranges])
        return padded(waves(time)[..., None], time, lengths, y.astype(np.int64))

    def draw_periods(self, random: np.random.Generator, wanted: NDArray[np.bool_]) -> Array:
        """The waves' periods, (waves, B): in the target ranges where wanted, elsewhere from the law of the other class."""
        shape = (self.waves, len(wanted))
        low, high = (np.array(ends)[: self.waves, None] for ends in zip(*TARGETS, strict=True))
        inside = random.uniform(low, high, shape)
        if self.periods == "authors":
            others = np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST), shape))
        else:  # uniform outside the target range: drawn from a shorter interval, then moved past the range
            others = random.uniform(SHORTEST, LONGEST - (high - low), shape)
            others += np.where(others >= low, high - low, 0.0)
        return np.where(wanted, inside, others)

    def draw_times(self, random: np.random.Generator, size: int) -> tuple[Array, NDArray[np.int64]]:
        """Sample times (T, B) and lengths (B,) of the sequences; times of padding are undefined."""
        points = random.integers(*self.points, size=size, endpoint=True)
        if self.condition != "asynchronous":
            rate = RATE[self.condition]
            start = random.uniform(0.0, self.points[1] - points)
            return start + np.arange(rate * points.max())[:, None] / rate, rate * points
        duration = random.uniform(*self.duration, size)
        start = random.uniform(0.0, self.duration[1] - duration)
        places = random.random((points.max(), size))
        places[np.arange(len(places))[:, None] >= points] = 1.0  # padding is sorted to the end
        return start + duration * np.sort(places, axis=0), points
