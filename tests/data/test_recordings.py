"""Many recordings in flat arrays: what goes in comes out, by index, slice and device."""

import numpy as np
import pytest
import torch

from phased.data import NMNIST, Recording, Recordings, Sensor
from recordings import assert_equal, recording
from wrong import Wrong, table


@pytest.fixture
def single():
    return [recording(events, seed=events) for events in (5, 1, 8, 3)]


@pytest.fixture
def many(single):
    return Recordings.of(single, label=[4, 0, 9, 4], number=[7, 3, 60000, 1])


def assert_same(before, after):
    for one, other in zip(before, after, strict=True):
        assert_equal(one, other)


def test_every_recording_is_what_it_was(single, many):
    assert_same(single, many)
    assert_same(single, many.to("cpu"))
    assert_equal(many[-1], single[3])
    assert many.offset.tolist() == [0, 5, 6, 14, 17]
    assert (many.address.dtype, many.time.dtype) == (torch.int16, torch.int32)


@pytest.mark.parametrize("part", [slice(1, 3), slice(None, None, -1), slice(3, None), slice(2, 2)])
def test_a_slice_has_the_recordings_of_a_list(single, many, part):
    some = many[part]
    assert_same(single[part], some)
    assert some.label.tolist() == many.label.tolist()[part]


def test_a_subset_may_repeat_recordings_and_sets_are_concatenated_in_order(single, many):
    some = many.subset(torch.tensor([2, 0, 2]))
    assert_same([single[2], single[0], single[2]], some)
    assert some.number.tolist() == [60000, 7, 60000]
    both = Recordings.concatenate([many, some])
    assert_same([*single, *some], both)
    assert both.label.tolist() == [4, 0, 9, 4, 9, 4, 9]
    assert both.offset[-1] == len(both.address)


def one(time=1, sensor=NMNIST):
    return Recording(np.array([1]), np.array([2]), np.array([True]), np.array([time]), sensor)


@table(
    [
        Wrong("none", lambda: Recordings.of([]), ValueError, "must be of one camera", "got none"),
        Wrong("two cameras", lambda: Recordings.of([one(), one(sensor=Sensor(9, 9))]), ValueError, "of one camera", "several"),
        Wrong(
            "a large camera",
            lambda: Recordings.of([one(sensor=Sensor(346, 260))]),
            ValueError,
            "at most 32768 addresses",
            "got 179920 of 346 x 260 pixels",
        ),
        Wrong("late times", lambda: Recordings.of([one(2**31)]), ValueError, r"below 2\*\*31 us", "got 2147483648"),
        Wrong("too few labels", lambda: Recordings.of([one(), one()], [1]), ValueError, "one label", "got 1 and 2 for 2", None),
        Wrong("an index", lambda: Recordings.of([one()])[1], IndexError, "index must be from -1 to 0", "got 1", None),
    ]
)
def test_what_does_not_fit_is_refused(wrong):
    wrong.assert_says_so()
