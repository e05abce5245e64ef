"""A random split, the same for the same seed, written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.data.errors import BadFile
from phased_lab.clips import Split, split

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


def test_a_split_is_written_down_and_read_again(tmp_path):
    made = split(NAMES, 5)
    made.save(tmp_path / "split.json")
    assert Split.load(tmp_path / "split.json") == made


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"train": ["a"], "test": ["a"], "seed": 1}', '{"train": 1, "test": [], "seed": 0}']
)
def test_a_damaged_split_is_named(tmp_path, text):
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(BadFile, match=r"split.json.*Split again"):
        Split.load(tmp_path / "split.json")


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        split(["a"], 0)
    with pytest.raises(ValueError, match="1 of them different"):
        split(["a", "a"], 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        split(NAMES, 0, 1.5)
