"""A random split, the same for the same seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.clips import split

NAMES = [f"s{number % 3}/{number:04}" for number in range(200)]


@given(count=st.integers(2, 200), seed=st.integers(0, 2**31), test=st.floats(0.01, 0.99))
def test_every_clip_is_in_one_part(count, seed, test):
    made = split(NAMES[:count], seed, test)
    assert sorted(made.train + made.test) == sorted(NAMES[:count])
    assert abs(len(made.test) - test * count) <= 1
    assert made.train
    assert made.test


def test_the_seed_and_not_the_order_of_names_decides():
    assert split(NAMES, 3) == split(reversed(NAMES), 3)
    assert split(NAMES, 3).test != split(NAMES, 4).test
    assert len(split(NAMES, 3).test) == 20


@pytest.mark.parametrize(
    "names, test, message", [("a", 0.1, "at least 2"), ("aa", 0.1, "1 of them different"), (NAMES, 1.5, "between 0 and 1")]
)
def test_what_cannot_be_split_is_refused(names, test, message):
    with pytest.raises(ValueError, match=message):
        split(names, 0, test)
