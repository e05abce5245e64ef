"""Words from the outputs of a network, at known times and at times that have to be found."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.clips import SLOTS, WORDS
from phased_lab.lipreader.grammar import PLACES, Normal, Timing, at_found_times, at_known_times

STEP = 40.0


def outputs(random: np.random.Generator, steps: int, sharpness: float = 2.0) -> np.ndarray:
    """Log-probabilities of 51 words at each step."""
    raw = sharpness * random.standard_normal((steps, len(WORDS)))
    return raw - np.log(np.exp(raw).sum(1, keepdims=True))


def sentence(
    random: np.random.Generator, begin: float, lengths: list[int], steps: int
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Words, their spans, and outputs that are clear inside words and vague outside."""
    words = [int(random.choice(place)) for place in PLACES]
    edges = begin + STEP * np.concatenate([[0], np.cumsum(lengths)])
    spans = np.stack([edges[:-1], edges[1:]], -1)
    time = STEP * np.arange(1, steps + 1)
    raw = 0.1 * random.standard_normal((steps, len(WORDS)))
    for word, (first, last) in zip(words, spans, strict=True):
        raw[(time > first) & (time <= last), word] += 6.0
    return words, spans, raw - np.log(np.exp(raw).sum(1, keepdims=True))


@given(st.integers(0, 10**6))
def test_a_word_at_a_known_time_has_the_largest_sum_among_those_of_its_place(seed):
    random = np.random.default_rng(seed)
    time, spans = STEP * np.arange(1, 25), np.array([[80.0 * n + 100, 80.0 * n + 180] for n in range(6)])
    found = outputs(random, 24)
    answer = at_known_times(found, time, spans)
    for place, slot in enumerate(SLOTS):
        begin, end = spans[place]
        sums = {word: sum(found[t, WORDS.index(word)] for t in range(24) if begin < time[t] <= end) for word in slot}
        assert WORDS[answer.words[place]] == max(sums, key=sums.get)
        assert 1 / len(slot) <= answer.confidence[place] <= 1


def test_a_word_between_two_steps_is_decided_by_the_nearest_one():
    time, found = np.array([40.0, 80.0, 120.0]), np.full((3, len(WORDS)), -5.0)
    found[1, PLACES[0][2]] = -0.1
    spans = np.array([[70.0, 79.0], *[[100.0, 120.0]] * 5])
    assert at_known_times(found, time, spans).words[0] == PLACES[0][2]


def brute_force(found: np.ndarray, time: np.ndarray, timing: Timing) -> tuple[float, list[int]]:
    """The best score over all cuts and words, one by one."""
    edges = np.concatenate([[2 * time[0] - time[1]], time])
    best = (-np.inf, [])
    for cuts in combinations(range(len(edges)), 7):
        score = float(timing.begin.logarithm(edges[cuts[0]]))
        words = []
        for place, (first, last) in enumerate(pairwise(cuts)):
            sums = {word: timing.weight * found[first:last, word].sum() for word in PLACES[place].tolist()}
            words.append(max(sums, key=sums.get))
            score += max(sums.values()) + float(timing.durations[place].logarithm(edges[last] - edges[first]))
        score += timing.weight * timing.silence * (len(time) - (cuts[-1] - cuts[0]))
        best = max(best, (score, words))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_found_times_and_words_are_the_best_of_all(seed):
    random = np.random.default_rng(seed)
    time, found = STEP * np.arange(1, 11), outputs(random, 10)
    timing = Timing(Normal(60.0, 50.0), tuple(Normal(50.0 + 5 * n, 30.0) for n in range(6)), silence=-2.5, weight=0.7)
    assert list(at_found_times(found, time, timing).words) == brute_force(found, time, timing)[1]


@given(st.integers(0, 10**6), st.lists(st.integers(3, 8), min_size=6, max_size=6), st.integers(2, 12))
def test_clear_outputs_give_the_words_and_about_their_times(seed, lengths, first):
    words, spans, found = sentence(np.random.default_rng(seed), STEP * first, lengths, 75)
    timing = Timing(Normal(300.0, 150.0), tuple(Normal(220.0, 80.0) for _ in range(6)))
    answer = at_found_times(found, STEP * np.arange(1, 76), timing)
    assert list(answer.words) == words
    # Durations pull at the edges of words of unusual length.
    assert np.abs(answer.spans - spans).max() <= 3 * STEP
    assert min(answer.confidence) > 0.9


def test_timing_is_measured_on_sentences_and_tells_what_six_words_of_fast_speakers_last():
    spans = np.array([[[100.0 * n + 10 * r, 100.0 * n + 10 * r + 60 + 20 * r] for n in range(6)] for r in range(3)])
    timing = Timing.of(spans)
    assert timing.begin.mean == 10.0
    assert [normal.mean for normal in timing.durations] == [80.0] * 6
    assert timing.durations[0].deviation == pytest.approx(np.std([60, 80, 100]))
    assert timing.shortest == pytest.approx(6 * 80 - 3 * np.std([60, 80, 100]) * 6**0.5)
    assert Timing(Normal(300.0, 100.0), (Normal(10.0, 50.0),) * 6).shortest == 0.0


def test_fewer_steps_than_words_are_refused():
    timing = Timing(Normal(0, 1), (Normal(40, 10),) * 6)
    for steps, first in ((5, 1.0), (6, 0.0)):  # a step at the beginning of the clip has no duration
        with pytest.raises(ValueError, match="a clip must have at least 6 steps, one for each word, got 5"):
            at_found_times(np.zeros((steps, 51)), first + np.arange(steps), timing)


@pytest.mark.parametrize("first", [0.0, 10.0, 40.0, -30.0])
def test_no_word_begins_before_the_clip(first):
    time = first + STEP * np.arange(8)
    spans = at_found_times(
        outputs(np.random.default_rng(0), 8), time, Timing(Normal(-100.0, 10.0), (Normal(40.0, 30.0),) * 6)
    ).spans
    assert spans.min() >= min(first, 0.0)
    assert np.all(spans[:, 0] < spans[:, 1])
