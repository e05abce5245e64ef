"""The adding task has the properties that the paper states."""

import pytest
from hypothesis import given

from phased_lab.paper.adding import Adding
from strategies import seeds


@given(seeds)
def test_one_mark_is_in_the_first_tenth_and_one_in_the_last_half_and_y_is_their_sum(seed):
    batch = Adding().batch(seed, "train", 1, 0, 6)
    for b, length in enumerate(batch.samples.lengths.tolist()):
        values, marks = batch.samples.x[:length, b].T
        early, late = marks.nonzero().flatten().tolist()
        assert early < 0.1 * length
        assert length / 2 <= late < length
        assert set(marks.tolist()) == {0.0, 1.0}
        assert batch.y[b] == values[early] + values[late]
        assert batch.samples.time[:length, b].tolist() == list(range(length))


def test_lengths_are_490_to_510_and_numbers_uniform_between_minus_and_plus_one_half():
    batch = Adding().batch(0, "train", 1, 0, 1000)
    assert (batch.samples.lengths.min(), batch.samples.lengths.max()) == (490, 510)
    numbers = batch.samples.x[:490, :, 0]
    assert numbers.abs().max() <= 0.5
    assert numbers.mean().abs() < 0.01
    assert numbers.var() == pytest.approx(1 / 12, rel=0.01)


def test_every_allowed_place_is_marked_now_and_then():
    batch = Adding(length=(20, 20)).batch(0, "train", 1, 0, 2000)
    marks = batch.samples.x[..., 1].sum(1)
    assert (marks[:2] > 900).all()
    assert (marks[2:10] == 0).all()
    assert (marks[10:] > 140).all()
