"""The frequency tasks have the properties that the paper states; what is common to all tasks that are computed."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given

from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from strategies import seeds

CONDITIONS = ["standard", "high", "asynchronous"]


def times(batch, b):
    return batch.samples.time[: batch.samples.lengths[b], b].numpy()


def values(batch, b):
    return batch.samples.x[: batch.samples.lengths[b], b, 0].numpy()


def drawn_periods(task, count=4000, seed=0):
    wanted = np.arange(count) % 2 == 1
    return task.draw_periods(np.random.default_rng(seed), wanted), wanted


TASKS = [
    *(Sines(condition, waves, periods) for condition in CONDITIONS for waves, periods in ((1, "paper"), (2, "authors"))),
    Adding(length=(20, 30)),
]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_batch_is_a_function_of_its_arguments_with_zeros_for_padding(task):
    before = torch.get_rng_state()
    one, other = (task.batch(7, "train", 3, 7, 32) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip((*one.samples, one.y), (*other.samples, other.y), strict=True))
    for place in ((8, "train", 3, 7), (7, "test", 3, 7), (7, "train", 2, 7), (7, "train", 3, 6)):
        assert not torch.equal(task.batch(*place, 32).samples.x[:10], one.samples.x[:10])
    x, time, lengths = one.samples
    steps = int(lengths.max())
    assert (x.shape, time.shape) == ((steps, 32, task.features), (steps, 32))
    assert (x.dtype, time.dtype, lengths.dtype) == (torch.float32, torch.float64, torch.int64)
    assert one.y.dtype == (torch.int64 if task.classes else torch.float32)
    padding = torch.arange(steps)[:, None] >= lengths
    assert padding.any()
    assert not x[padding].any()
    assert not time[padding].any()


@given(seeds)
def test_standard_samples_come_every_millisecond_and_high_resolution_ten_times_as_often(seed):
    standard, high = (Sines(condition).batch(seed, "train", 1, 0, 4) for condition in ("standard", "high"))
    assert torch.equal(high.samples.lengths, 10 * standard.samples.lengths)
    for b in range(4):
        np.testing.assert_allclose(np.diff(times(standard, b)), 1.0, rtol=1e-12)
        np.testing.assert_allclose(np.diff(times(high, b)), 0.1, rtol=1e-10)
        np.testing.assert_allclose(times(high, b)[::10], times(standard, b), rtol=1e-12)
        np.testing.assert_array_equal(values(high, b)[::10], values(standard, b))


@given(seeds)
def test_random_times_are_as_many_as_the_standard_condition_has_and_are_not_regular(seed):
    standard, asynchronous = (Sines(condition).batch(seed, "train", 1, 0, 4) for condition in ("standard", "asynchronous"))
    assert torch.equal(asynchronous.samples.lengths, standard.samples.lengths)
    assert torch.equal(asynchronous.y, standard.y)
    for b in range(4):
        steps = np.diff(times(asynchronous, b))
        assert (steps >= 0).all()
        assert steps.std() > 0.2 * steps.mean()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_numbers_durations_and_starts_fill_what_the_paper_allows(condition):
    batch = Sines(condition).batch(0, "train", 1, 0, 2000)
    points = batch.samples.lengths.numpy() // (10 if condition == "high" else 1)
    assert (points.min(), points.max()) == (15, 125)
    assert points.mean() == pytest.approx(70, abs=3)
    first = batch.samples.time[0].numpy()
    last = np.array([times(batch, b)[-1] for b in range(2000)])
    assert (first >= 0).all()
    assert (last <= 125).all()
    assert first.max() > 90
    spans = last - first
    assert 10 < spans.min() < 16
    assert 115 < spans.max() <= 125
    if condition == "asynchronous":  # the number of samples is independent of the duration
        assert abs(np.corrcoef(points, spans)[0, 1]) < 0.3
    else:
        np.testing.assert_allclose(spans, points - (0.1 if condition == "high" else 1.0))


def test_random_times_are_uniform_over_the_duration():
    batch = Sines(points=(400, 400), duration=(50.0, 50.0)).batch(0, "train", 1, 0, 20)
    # Of 8000 uniform numbers the distribution is off by 1.95 / sqrt(8000) once in a thousand times.
    places = np.sort((batch.samples.time / 50).flatten().numpy())
    assert np.abs(places - np.arange(8000) / 8000).max() < 1.95 / math.sqrt(8000)


def fitted(t, x, *periods):
    """The largest error of the best sum of sines with one of the periods for each wave, and the waves' coefficients."""
    fits = []
    for some in itertools.product(*periods):
        angles = 2 * np.pi * t[:, None] / np.array(some)
        design = np.concatenate([np.sin(angles), np.cos(angles)], 1)
        fit, *_ = np.linalg.lstsq(design, x, rcond=None)
        fits.append((np.abs(design @ fit - x).max(), fit))
    return min(fits, key=lambda pair: pair[0])


def test_one_wave_is_a_sine_of_amplitude_1_whose_phase_is_anywhere():
    batch = Sines("high").batch(0, "train", 1, 0, 400)
    phases = []
    for b in np.flatnonzero(batch.y.numpy())[:60]:  # periods of 5 to 6 ms
        error, fit = fitted(times(batch, b), values(batch, b), np.linspace(5, 6, 101))
        assert error < 0.25
        assert np.hypot(*fit) == pytest.approx(1, abs=0.1)
        phases.append(np.arctan2(fit[1], fit[0]))
    assert np.abs(np.exp(1j * np.array(phases)).mean()) < 0.3


@pytest.mark.parametrize("waves", [1, 2])
def test_the_papers_classes_are_periods_inside_5_to_6_and_uniform_over_the_rest_of_1_to_100(waves):
    period, wanted = drawn_periods(Sines(waves=waves))
    for wave, (low, high) in zip(period, ((5, 6), (13, 15)), strict=False):
        assert ((wave[wanted] >= low) & (wave[wanted] <= high)).all()
        assert wave[wanted].mean() == pytest.approx((low + high) / 2, abs=0.05)
        others = wave[~wanted]
        assert (((others >= 1) & (others <= low)) | ((others >= high) & (others <= 100))).all()
        assert (others < low).mean() == pytest.approx((low - 1) / (99 - high + low), abs=0.025)  # by length of the two intervals
        assert others[others > high].mean() == pytest.approx((high + 100) / 2, abs=2)
    assert waves == 1 or abs(np.corrcoef(period[:, ~wanted])[0, 1]) < 0.1
    assert [Sines(waves=waves).batch(0, split, 1, 0, 32).y.sum() for split in ("train", "test")] == [16, 16], "balanced"


def test_the_authors_other_periods_are_log_uniform_and_labelled_by_what_they_are():
    (period,), wanted = drawn_periods(Sines(periods="authors"))
    others = period[~wanted]
    assert np.log(others).mean() == pytest.approx(math.log(100) / 2, abs=0.1)
    hits = ((others >= 5) & (others <= 6)).mean()
    assert hits == pytest.approx(math.log(6 / 5) / math.log(100), abs=0.015)
    y = Sines(periods="authors").batch(0, "train", 1, 0, 4000).y.double().mean().item()
    assert y == pytest.approx(0.5 + hits / 2, abs=0.02)


def test_two_waves_are_the_sum_of_sines_with_2_pi_and_a_phase_of_their_own():
    batch = Sines("high", waves=2).batch(0, "train", 1, 0, 8)
    assert 1.2 < batch.samples.x.abs().max() <= 2
    b = int(batch.y.argmax())
    # With periods in the target ranges two sines fit; without 2 pi they would be six times as long.
    assert fitted(times(batch, b), values(batch, b), np.linspace(5, 6, 41), np.linspace(13, 15, 41))[0] < 0.2


def test_an_unknown_split_and_an_empty_batch_are_refused():
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', got 'valid'"):
        Sines().batch(0, "valid", 1, 0, 4)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        Sines().batch(0, "train", 1, 0, 0)
