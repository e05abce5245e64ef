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
from phased.estimator.inputs import MOST, SOON, SPREAD, Inputs, Measured
from phased.estimator.scaling import MOST_LEVELS, PIECES, Numbers, Scaling, levels_of
from phased.ops.native import MISSING

X, _ = patients(empty=True)
NAN = float("nan")


def rows_of(events, scaling=None):
    """The inputs of all steps."""
    scaling = scaling or Scaling.of(events)
    made = Inputs(scaling.numbers, scaling.span_in_gaps)
    return made.rows(Measured.of(events, scaling), np.arange(len(events)))


def slowly(events, scaling):
    """The inputs of all steps, one step after another, as the documentation states them."""
    rows = []
    for one in events:
        seen = {name: [] for name in one.variables}  # (time, value) of all measurements so far
        for step, (time, row) in enumerate(zip(one.time, one.dense(), strict=True)):
            start, scaled = one.time[0], scaling.values(row)
            for name, value in zip(one.variables, scaled, strict=True):
                if np.isfinite(value):
                    seen[name].append((time / scaling.gap, value))
            last = [seen[name][-1] if seen[name] else (start / scaling.gap, 0.0) for name in one.variables]
            gap = (time - one.time[step - 1] if step else 0.0) / scaling.gap
            plain = [value for _, value in last], np.isfinite(row), [np.log1p(time / scaling.gap - at) for at, _ in last]
            relative = [of_its_own(seen[name], bool(new)) for name, new in zip(one.variables, np.isfinite(row), strict=True)]
            rows.append([*np.concatenate(plain), np.log1p(gap), (time - start) / scaling.span, *np.transpose(relative).ravel()])
    return np.array(rows)


def of_its_own(seen, new):
    """Deviation, change, rate and logarithm of the spread of the last of these measurements."""
    if not seen:
        return 0.0, 0.0, 0.0, 0.0
    times, values = np.transpose(seen)
    spread = np.sqrt(values.var() + SPREAD**2)
    change = (values[-1] - values[-2]) / spread if new and len(values) > 1 else 0.0
    rate = change / (times[-1] - times[-2] + SOON) if len(values) > 1 else 0.0
    return *np.clip([(values[-1] - values.mean()) / spread, change, rate], -MOST, MOST), np.log(spread)


@pytest.fixture(params=["core", "numpy"])
def each_way(request, monkeypatch):
    """By the compiled core, and by NumPy."""
    if request.param == "core" and MISSING is not None:
        pytest.skip(str(MISSING))
    if request.param == "numpy":
        monkeypatch.setattr(made_of, "core", None)


@pytest.mark.usefixtures("each_way")
def test_inputs_are_last_known_values_masks_ages_times_and_values_relative_to_those_before():
    scaling = Scaling.of(X)
    assert np.allclose(rows_of(X, scaling), slowly(X, scaling), atol=1e-5)


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@given(st.integers(0, 2**32 - 1))
def test_the_core_and_numpy_compute_the_same_inputs(seed):
    random = np.random.default_rng(seed)
    times = [np.cumsum(random.integers(0, 3, size).astype(float)) for size in random.integers(0, 9, 5)]
    values = [np.where(random.random((len(each), 3)) < 0.5, np.nan, random.normal(size=(len(each), 3)) * 10) for each in times]
    events = Events.of(times, values)
    found = rows_of(events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made_of, "core", None)
        slow = rows_of(events)
    np.testing.assert_allclose(found, slow, rtol=1e-6, atol=1e-6)
    exact = slice(0, 6)  # values and masks
    assert np.array_equal(found[:, exact], slow[:, exact])


def test_inputs_of_a_step_do_not_depend_on_later_steps():
    scaling = Scaling.of(X)
    for one in X[:5]:
        cut = Events.of([one.time[:3]], [one.dense()[:3]], variables=X.variables)
        assert np.array_equal(rows_of(cut, scaling), rows_of(one, scaling)[:3])


def test_the_indicators_of_a_text_have_no_relative_inputs():
    made = Inputs((True, False, True), 10.0)
    assert made.width == 3 * 3 + 2 + 4 * 2
    assert made.own.tolist() == [0, 2]


def test_a_variable_that_counts_time_is_read_as_its_difference_from_the_time():
    random = np.random.default_rng(0)
    times = [np.cumsum(random.exponential(1.0, 50)) + 100 * start for start in range(6)]
    clocks = [(time + random.normal(0, 0.01, 50).cumsum() * 0.01) * 1000 for time in times]
    for clock in clocks:
        np.maximum.accumulate(clock, out=clock)
    level = [random.normal(size=50).cumsum() for _ in times]
    events = Events.of(times, [np.stack(pair, 1) for pair in zip(clocks, level, strict=True)])
    scaling = Scaling.of(events)
    assert scaling.slopes[0] == pytest.approx(1000, rel=1e-3)
    assert scaling.slopes[1] == 0
    later = Events.of([time + 1e4 for time in times], [events[n].dense() + np.array([1e7, 0]) for n in range(6)])
    assert np.abs(scaling.values_of(later)[::2]).max() < 10  # a later hour of the same clock is no other value


def test_a_steady_rise_at_even_times_is_no_clock():
    times = [np.arange(50.0)] * 6
    events = Events.of(times, [2.0 * time[:, None] for time in times])
    assert Scaling.of(events).slopes.tolist() == [0.0]


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


def test_a_static_number_has_an_input_for_each_piece_between_its_quantiles_where_every_step_has_a_target():
    ages = np.arange(33.0)
    events = Events.of([[0.0, 1.0]] * 33, [[[1.0], [2.0]]] * 33, static=ages[:, None], statics=("Age",))
    scaling = Scaling.of(events, every_step=True)
    made = scaling.static_inputs(np.array([[0.0], [13.0], [32.0], [-9.0], [99.0], [NAN]]))
    assert made.shape == (6, scaling.static_features) == (6, 2 + PIECES)
    pieces = made[:, 2:]
    assert pieces[0].sum() == pieces[3].sum() == pieces[5].sum() == 0
    assert pieces[2].tolist() == pieces[4].tolist() == [1] * PIECES
    assert np.allclose(pieces[1], [1] * 6 + [0.5] + [0] * 9, atol=0.05)  # a quantile every two years
    assert Scaling.of(events).static_features == 2


@pytest.mark.parametrize("column", [[NAN] * 8, [5.0] * 8, [0.0, 1.0] * 4, [1.0, 2.0, 3.0] * 3], ids=str)
def test_unknown_numbers_constants_flags_and_codes_have_no_pieces(column):
    events = Events.of(
        [[0.0, 1.0]] * len(column), [[[1.0], [2.0]]] * len(column), static=np.array(column)[:, None], statics=("s",)
    )
    assert Scaling.of(events, every_step=True).knots == ((),)


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


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("chosen", [np.array([3, 0, 5, 4]), np.flatnonzero(X.lengths == 0)[:1]])
def test_batches_have_the_same_numbers_whichever_lie_together_in_memory(chosen):
    scaling, random = Scaling.of(X), torch.Generator().manual_seed(0)
    made, measured = Inputs(scaling.numbers, scaling.span_in_gaps), Measured.of(X, scaling)
    steps, static = len(X.time), torch.randn(len(X), 2, generator=random)
    data = Sequences(made, measured, static, torch.arange(float(steps)), torch.rand(steps, generator=random) < 0.5)
    one, other = (replace(data, step_first=first).batch(chosen) for first in (False, True))
    assert [batch.streams["steps"].x.is_contiguous() for batch in (one, other)] == [len(chosen) == 1, True]
    for mine, its in zip(one.tensors, other.tensors, strict=True):
        assert torch.equal(mine, its)
    x, time, lengths = one.streams["steps"]
    for column, sequence in enumerate(chosen):
        own = slice(X.offset[sequence], X.offset[sequence + 1])
        assert torch.equal(x[: lengths[column], column, : made.width], torch.from_numpy(rows_of(X, scaling)[own]))
        assert (x[: lengths[column], column, made.width :] == static[sequence]).all()
        assert torch.equal(time[: lengths[column], column], data.time[own])
        assert torch.equal(one.y[: lengths[column], column], data.y[own])
        assert not x[lengths[column] :, column].any()
        assert not time[lengths[column] :, column].any()


def test_the_last_known_value_at_a_step_is_that_of_the_inputs():
    scaling = Scaling.of(X)
    measured, steps = Measured.of(X, scaling), np.random.default_rng(0).permutation(len(X.time))
    for variable in range(len(X.variables)):
        assert np.array_equal(measured.last(variable, steps), rows_of(X, scaling)[steps, variable])


def test_a_clock_that_differs_from_the_time_by_rounding_alone_is_no_input():
    times = [1.6e9 + np.cumsum(np.random.default_rng(n).exponential(1.0, 50)) for n in range(6)]
    scaling = Scaling.of(Events.of(times, [(3.3 * time + 100)[:, None] for time in times]))
    assert scaling.slopes[0] > 0
    assert scaling.values.factor.tolist() == [0.0]
