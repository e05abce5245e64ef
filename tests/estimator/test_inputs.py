"""Inputs of the network: last-known values, masks, ages, gaps; scales that survive anything; batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from patients import patients
from phased.estimator import Events
from phased.estimator import inputs as made_of
from phased.estimator.batches import Sequences
from phased.estimator.inputs import inputs
from phased.estimator.scaling import MOST_LEVELS, Numbers, Scaling, levels_of

X, _ = patients(empty=True)
NAN = float("nan")


def slowly(events, scaling):
    """The inputs of all steps, one step after another, as the documentation states them."""
    rows = []
    for one in events:
        last = dict.fromkeys(one.variables, (0.0, one.time[0])) if len(one.time) else {}
        for step, (time, row) in enumerate(zip(one.time, one.dense(), strict=True)):
            scaled = scaling.values(row)
            for name, value in zip(one.variables, scaled, strict=True):
                if np.isfinite(value):
                    last[name] = (value, time)
            values = [last[name][0] for name in one.variables]
            ages = [np.log1p((time - last[name][1]) / scaling.gap) for name in one.variables]
            gap = time - one.time[step - 1] if step else 0.0
            rows.append([*values, *np.isfinite(row), *ages, np.log1p(gap / scaling.gap), (time - one.time[0]) / scaling.span])
    return np.array(rows)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_inputs_are_last_known_values_masks_ages_and_times(chunk, monkeypatch):
    monkeypatch.setattr(made_of, "CHUNK", chunk)
    scaling = Scaling.of(X)
    assert np.allclose(inputs(X, scaling), slowly(X, scaling), atol=1e-5)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False, width=32), max_size=40))
def test_scaled_values_are_finite_and_of_the_order_of_one(values):
    column = np.array(values)
    scaled = Numbers.of([column])(column[:, None])[:, 0]
    assert np.array_equal(np.isnan(scaled), np.isnan(column))
    known = scaled[~np.isnan(scaled)]
    assert np.isfinite(known).all()
    assert (np.abs(known) < 50).all()


@pytest.mark.parametrize("column", [[], [NAN, NAN], [7.0], [7.0] * 9, [0.1] * 1000])
def test_columns_without_a_spread_become_zero(column):
    numbers = Numbers.of([np.array(column)])
    assert np.abs(numbers(np.array([[7.0], [1e9], [-3.0]]))).max() == 0.0


def test_an_outlier_does_not_move_the_others():
    values = np.random.default_rng(0).normal(80, 10, 2000)
    plain, wild = Numbers.of([values]), Numbers.of([np.append(values, 1e12)])
    assert np.allclose(wild(values[:, None]), plain(values[:, None]), atol=0.1)
    assert wild(np.array([[1e12]])).item() < 4


def test_codes_have_an_input_each_and_numbers_have_two():
    scaling = Scaling.of(X)
    assert scaling.levels == ((), (1.0, 2.0, 3.0, 4.0))
    made = scaling.static_inputs(np.array([[NAN, 3.0], [50.0, 9.0], [50.0, NAN]]))
    assert made.shape == (3, scaling.static_features) == (3, 6)
    assert made[0].tolist() == [0, 0, 0, 0, 1, 0]
    assert made[1, 1:].tolist() == made[2, 1:].tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "column, is_code",
    [
        ([1, 2, 3] * 3, True),
        ([0, 1] * 5, False),
        ([1.5, 2.0, 3.0] * 3, False),
        ([1, 2, 3, 3], False),
        (list(range(MOST_LEVELS + 1)) * 2, False),
        ([NAN] * 4, False),
    ],
)
def test_a_code_is_a_few_whole_numbers_that_repeat(column, is_code):
    assert bool(levels_of(np.array(column, float))) == is_code


@pytest.mark.parametrize("times", [[[0.0]], [[]], [[0.0], [3.0], [5.0]], [[0.0, 2.0]]])
def test_gap_and_span_are_positive_for_any_times(times):
    scaling = Scaling.of(Events.of(times, [np.ones((len(each), 1)) for each in times]))
    assert scaling.span >= scaling.gap > 0


def test_batches_have_the_same_numbers_whichever_lie_together_in_memory():
    offset, chosen = np.array([0, 3, 3, 8, 9]), np.array([2, 0, 1])
    x, time, static = torch.randn(9, 4), torch.rand(9, dtype=torch.float64), torch.randn(4, 2)
    data = Sequences(x, time, static, offset, torch.arange(9.0), torch.rand(9) < 0.5)
    one, other = (replace(data, step_first=first).batch(chosen) for first in (False, True))
    steps = [batch.streams["steps"] for batch in (one, other)]
    assert [each.x.is_contiguous() for each in steps] == [False, True]
    assert torch.equal(one.y, other.y)
    assert torch.equal(one.mask, other.mask)
    for name, samples in one.streams.items():
        valid = torch.arange(len(samples.x)).unsqueeze(-1) < samples.lengths
        assert torch.equal(samples.x[valid], other.streams[name].x[valid])
        assert torch.equal(samples.time, other.streams[name].time)
        assert torch.equal(samples.lengths, other.streams[name].lengths)
    for column, sequence in enumerate(chosen):
        own = slice(offset[sequence], offset[sequence + 1])
        length = offset[sequence + 1] - offset[sequence]
        assert torch.equal(steps[0].x[:length, column], x[own])
        assert torch.equal(steps[0].time[:length, column], time[own])
        assert not steps[0].time[length:, column].any()
