"""Labels at the ends of lines never touch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phased.pictures.annotate import spread

heights = st.lists(st.floats(-10, 10), min_size=1, max_size=8)


@given(heights, st.floats(0.01, 3))
def test_labels_are_apart_and_in_the_order_of_their_lines(lines, apart):
    places = np.array(spread(lines, apart))
    order = np.argsort(lines, kind="stable")
    assert np.all(np.diff(places[order]) >= apart * (1 - 1e-9) - 1e-9)


@given(heights, st.floats(0.01, 3))
def test_labels_stay_around_the_middle_of_their_lines(lines, apart):
    assert np.isclose(np.mean(spread(lines, apart)), np.mean(lines), atol=1e-9)


def test_labels_that_do_not_touch_stay_where_their_lines_are():
    assert spread([3.0, 1.0, 2.0], 0.5) == [3.0, 1.0, 2.0]
