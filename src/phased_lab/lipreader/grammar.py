"""Six words from the outputs of a network: at known times, or at times that follow from the outputs and the fixed grammar."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased_lab.clips.words import SLOTS, WORD_ID

Array = NDArray[np.float64]
LONGEST = 1000.0  # ms of a word
PLACES = [np.array([WORD_ID[word] for word in slot]) for slot in SLOTS]  # ids of the words of each place


class Normal(NamedTuple):
    """A normal distribution of times, ms."""

    mean: float
    deviation: float

    def logarithm(self, x: Array) -> Array:
        """The logarithm of its density."""
        density: Array = -0.5 * ((x - self.mean) / self.deviation) ** 2 - np.log(self.deviation)
        return density


class Timing(NamedTuple):
    """Times of words, measured on training sentences. Sentences without an alignment are read with them."""

    begin: Normal  # of the first word
    durations: tuple[Normal, ...]  # of the word in each of the six places
    silence: float = -1.0  # the score of a step outside words, as a log-probability
    weight: float = 0.3  # of the outputs of a step against the durations: below 1, as outputs of neighbouring steps are similar

    @property
    def shortest(self) -> float:
        """What six words last at least, ms: three standard deviations less than their mean."""
        mean = sum(each.mean for each in self.durations)
        return max(0.0, mean - 3 * math.hypot(*(each.deviation for each in self.durations)))

    @classmethod
    def of(cls, spans: Array) -> Timing:
        """Measured on the spans of the words of R sentences, (R, 6, 2) in ms."""
        spans = np.asarray(spans, np.float64)
        lasting = spans[..., 1] - spans[..., 0]
        durations = tuple(Normal(float(x.mean()), max(float(x.std()), 10.0)) for x in lasting.T)
        first = spans[:, 0, 0]
        return cls(Normal(float(first.mean()), max(float(first.std()), 10.0)), durations)


class Spoken(NamedTuple):
    """Six words: their ids, when each begins and ends, (6, 2) in ms, and the confidence in each, (6,)."""

    words: tuple[int, ...]
    spans: Array
    confidence: tuple[float, ...]


def at_known_times(outputs: Array, time: Array, spans: Array) -> Spoken:
    """The words of a sentence whose times are known.

    A word is the one of its place in the grammar with the largest sum of log-probabilities over the steps inside it. A step is
    inside a word that begins before it and ends at it or later. The confidence is the word's share among those of its place, by
    the geometric mean of the steps' probabilities.

    Args:
        outputs: log-probabilities of all words at each step, (T, 51).
        time: of the steps, (T,) in ms, increasing.
        spans: when each word begins and ends, (6, 2) in ms.

    Returns:
        The words, with the spans given.
    """
    words, confidence = [], []
    for place, (begin, end) in zip(PLACES, spans, strict=True):
        inside = (begin < time) & (time <= end)
        # A word shorter than a step is decided by the nearest one.
        rows = outputs[inside] if inside.any() else outputs[[np.abs(time - end).argmin()]]
        mean = rows[:, place].mean(0)
        share = np.exp(mean - mean.max())
        words.append(int(place[mean.argmax()]))
        confidence.append(float(share.max() / share.sum()))
    return Spoken(tuple(words), np.asarray(spans, np.float64), tuple(confidence))


def at_found_times(outputs: Array, time: Array, timing: Timing) -> Spoken:
    """The words of a sentence whose times are not known: the most probable words and times together.

    Words follow each other without a pause, in the order of the grammar. The score of a sentence is the sum of the weighted
    log-probabilities of its words at their steps, the score of silence at the others, and the log-densities of the first word's
    begin and of all durations. Dynamic programming finds the largest one. No word begins before the clip, which begins at 0 or
    at a step before that.

    Args:
        outputs: log-probabilities of all words at each step, (T, 51); at least 6 of them after the clip's begin.
        time: of the steps, (T,) in ms, increasing.
        timing: what is known about times.

    Returns:
        The words and their spans.
    """
    start = min(float(time[0]), 0.0) if len(time) else 0.0
    steps = int((time > start).sum())
    if steps < len(PLACES):
        raise ValueError(
            f"a clip must have at least {len(PLACES)} steps, one for each word, got {steps}. Copy or record the whole sentence."
        )
    # A step at time t ends there, and begins where the last one ends.
    edges = np.concatenate([[max(2 * time[0] - time[1], start)], time])
    weighted = timing.weight * np.concatenate([np.zeros((1, outputs.shape[1])), np.cumsum(outputs, 0)])
    silence = timing.weight * timing.silence * np.arange(len(edges))
    best = silence + timing.begin.logarithm(edges)  # of the sentence up to each edge, where the first word begins
    if edges[0] == edges[1]:  # a step at the begin of the clip has no duration, and is in no word
        best[0] = -np.inf
    begins = []
    for place, duration in zip(PLACES, timing.durations, strict=True):
        best, begin = _extended(best, weighted[:, place], edges, duration)
        begins.append(begin)
    end = int((best + silence[-1] - silence).argmax())
    cuts = [end]
    for begin in reversed(begins):
        cuts.append(int(begin[cuts[-1]]))
    bounds = edges[cuts[::-1]]
    return at_known_times(outputs, time, np.stack([bounds[:-1], bounds[1:]], -1))


def _extended(best: Array, sums: Array, edges: Array, duration: Normal) -> tuple[Array, NDArray[np.int64]]:
    """The best score with one word more, up to each edge, and the edge at which that word begins.

    `best` and `edges` are (T + 1,), `sums` the cumulative scores of the words of a place, (T + 1, words).
    """
    found, begin = np.full(len(edges), -np.inf), np.zeros(len(edges), np.int64)
    for steps in range(1, len(edges)):
        lasting = edges[steps:] - edges[:-steps]
        if lasting.min() > LONGEST:
            break
        score = best[:-steps] + (sums[steps:] - sums[:-steps]).max(1) + duration.logarithm(lasting)
        better = score > found[steps:]
        found[steps:][better] = score[better]
        begin[steps:][better] = np.flatnonzero(better)
    return found, begin
