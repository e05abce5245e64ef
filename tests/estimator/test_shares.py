"""Shares: counts of random convolutions are the same in the core, in NumPy, step by step, and by their definition."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phased.estimator import shares as of_shares
from phased.estimator.inputs import width
from phased.estimator.ragged import gather
from phased.estimator.shares import DILATIONS, HEAVY, KERNELS, MOST_CHANNELS, QUANTILES, TAPS, Shares
from phased.ops.native import MISSING

needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
lengths = st.lists(st.one_of(st.integers(0, 12), st.integers(120, 300)), min_size=1, max_size=4)


def rows_of(lengths, numbers, seed=0):
    """Rows of inputs, some of them beyond the bounds, with two more columns, and where the sequences begin."""
    offset = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    x = np.random.default_rng(seed).normal(0, 4, (offset[-1], width(len(numbers), sum(numbers)) + 2)).astype(np.float32)
    x[::7] *= 20
    return x, offset


def fitted(shares, x, offset, seed):
    """Shares with kernels for these sequences."""
    return shares.fit_to(lambda some: x[gather(offset, some)[0]], np.diff(offset), seed)


def by_definition(shares, x, offset):
    """The counts of the first and last kernels of each dilation, as integers, and which kernels these are."""
    whole = np.rint(np.clip(x[:, shares.column.numpy()], -30, 30) * np.float32(256)).astype(int)
    dilations = shares.dilation.tolist()
    chosen = sorted({first for d in set(dilations) for first in (dilations.index(d), KERNELS - 1 - dilations[::-1].index(d))})
    counts = np.zeros((len(offset) - 1, len(QUANTILES), len(chosen)), int)
    for at, k in enumerate(chosen):
        weight = np.where(np.isin(np.arange(TAPS), shares.tap[k].numpy()), 2, -1)
        channels = [c for c in shares.channel[k].tolist() if c >= 0]
        for i, (first, end) in enumerate(pairwise(offset)):
            for t in range(first, end):
                taps = [j for j in range(TAPS) if t - j * dilations[k] >= first]
                value = sum(weight[j] * whole[t - j * dilations[k], c] for j in taps for c in channels)
                counts[i, :, at] += value > shares.threshold[:, k].numpy()
    return counts, chosen


@given(lengths, st.lists(st.booleans(), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=12, deadline=None)
def test_core_numpy_and_definition_count_the_same(lengths, numbers, seed):
    x, offset = rows_of(lengths, numbers, seed)
    shares = fitted(Shares(numbers), x, offset, seed)
    found = shares.count(x, offset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_shares, "core", None)
        assert np.array_equal(shares.count(x, offset), found)
    expected, chosen = by_definition(shares, x, offset)
    assert np.array_equal(found.reshape(len(lengths), len(QUANTILES), KERNELS)[..., chosen], expected)


@given(st.lists(st.one_of(st.integers(0, 12), st.integers(60, 70)), min_size=1, max_size=3), st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_a_sequence_step_by_step_has_the_counts_of_the_batch(lengths, seed):
    numbers = [True, False, True]
    x, offset = rows_of(lengths, numbers, seed)
    shares = fitted(Shares(numbers), x, offset, seed)
    expected, native = shares.count(x, offset), shares.compiled()
    for i, (first, end) in enumerate(pairwise(offset)):
        slow, fast = (np.zeros(1, np.dtype(shares.parts()))[0] for _ in range(2))
        for before, row in enumerate(x[first:end]):
            shares.step(row, slow["ring"], slow["counts"], before)
            if native is not None:
                native.step(row.ctypes.data, fast["ring"].ctypes.data, fast["counts"].ctypes.data, before)
                assert np.array_equal(slow["ring"], fast["ring"])
        assert np.array_equal(slow["counts"].ravel(), expected[i])
        assert native is None or np.array_equal(fast["counts"], slow["counts"])


def test_shares_are_counts_over_steps_and_zero_without_steps():
    x, offset = rows_of([5, 0, 1], [True])
    shares = fitted(Shares([True]), x, offset, 0)
    made = shares.batch(x, offset)
    assert made.dtype == np.float32
    assert np.array_equal(made[0], (shares.count(x, offset)[0] / 5).astype(np.float32))
    assert set(np.unique(made[1])) == {0.0}
    assert set(np.unique(made[2])) <= {0.0, 1.0}


def test_thresholds_are_quantiles_of_the_training_steps():
    x, offset = rows_of([200] * 10, [True, True])
    shares = fitted(Shares([True, True]), x, offset, 0).batch(x, offset).mean(0).reshape(len(QUANTILES), KERNELS)
    assert np.allclose(shares, 1 - np.array(QUANTILES)[:, None], atol=0.01)


def test_without_any_step_the_shares_are_zeros():
    x, offset = rows_of([0, 0], [True])
    assert not fitted(Shares([True]), x, offset, 0).batch(x, offset).any()


def test_the_seed_decides_the_kernels():
    x, offset = rows_of([100] * 3, [True])
    one, same, other = (fitted(Shares([True]), x, offset, seed).state_dict() for seed in (1, 1, 2))
    assert all((one[name] == same[name]).all() for name in one)
    assert not all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize("longest, expected", [(0, (1,)), (9, (1,)), (10, (1,)), (17, (1, 2)), (1000, DILATIONS)])
def test_kernels_are_not_longer_than_the_training_sequences(longest, expected):
    shares = Shares([True])
    shares.draw(longest, 0)
    assert tuple(shares.dilation.unique().tolist()) == expected
    assert shares.fits()


@pytest.mark.parametrize("numbers", [[True], [False], [True] * 37, [True] * 200, [False] * 3000])
def test_the_state_of_a_sequence_is_at_most_32_kilobytes(numbers):
    shares = Shares(numbers)
    shares.draw(1000, 0)
    assert np.dtype(shares.parts()).itemsize <= 32 << 10
    read = shares.channel >= 0
    assert set(read.sum(1).tolist()) == set(range(1, min(MOST_CHANNELS, len(shares.column)) + 1))
    assert all(len(set(own)) == HEAVY for own in shares.tap.tolist())


def test_a_state_dict_restores_the_shares():
    x, offset = rows_of([30, 40], [True, False])
    shares, other = fitted(Shares([True, False]), x, offset, 3), Shares([True, False])
    other.load_state_dict(shares.state_dict())
    assert np.array_equal(shares.batch(x, offset), other.batch(x, offset))


@needs_core
@pytest.mark.parametrize(
    "name, wrong", [("column", 99), ("dilation", 64), ("channel", 5), ("channel", -2), ("tap", 9), ("tap", -1)]
)
def test_damaged_kernels_never_reach_the_core(name, wrong):
    x, offset = rows_of([30, 40], [True])
    shares = fitted(Shares([True]), x, offset, 0)
    getattr(shares, name).view(-1)[-1] = wrong
    with pytest.raises(ValueError, match="damaged"):
        shares.batch(x, offset)


@needs_core
def test_outputs_read_the_shares_by_their_weights():
    x, offset = rows_of([30], [True])
    shares = fitted(Shares([True]), x, offset, 0)
    counts, out = shares.count(x, offset), np.array([1.0, 2.0])
    weight = np.random.default_rng(0).normal(size=(2, shares.features)).astype(np.float32)
    shares.compiled().read(counts.ctypes.data, 30, weight.ctypes.data, 2, out.ctypes.data)
    assert np.allclose(out, [1, 2] + weight @ (counts[0] / 30), atol=1e-4)


@pytest.mark.parametrize("rows, columns", [(29, 9), (30, 7)])
def test_rows_that_do_not_fit_never_reach_the_core(rows, columns):
    x, offset = rows_of([30], [True])
    shares = fitted(Shares([True]), x, offset, 0)
    with pytest.raises(IndexError, match="must have all steps"):
        shares.batch(x[:rows, :columns], offset)
