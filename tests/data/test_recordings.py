"""Many recordings in flat arrays: what goes in comes out, by index, slice and device."""

import numpy as np
import pytest
import torch

from phased.data import NMNIST, Recording, Recordings, Sensor
from wrong import Wrong, table


@pytest.fixture
def single(recorded):
    return [recorded(events, seed=events) for events in (5, 1, 8, 3)]


@pytest.fixture
def many(single):
    return Recordings.of(single, label=[4, 0, 9, 4], number=[7, 3, 60000, 1])


def same(a: Recording, b: Recording) -> bool:
    return a.sensor == b.sensor and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("x", "y", "polarity", "time")
    )


def test_every_recording_is_what_it_was(single, many):
    assert len(many) == 4
    assert all(same(before, after) for before, after in zip(single, many, strict=True))
    assert same(many[-1], single[3])
    assert many.offset.tolist() == [0, 5, 6, 14, 17]
    assert (many.address.dtype, many.time.dtype) == (torch.int16, torch.int32)


@pytest.mark.parametrize("index", [4, -5])
def test_an_index_outside_is_an_error(many, index):
    with pytest.raises(IndexError, match=f"from -4 to 3, got {index}"):
        many[index]


@pytest.mark.parametrize("part", [slice(1, 3), slice(None, None, -1), slice(3, None), slice(2, 2)])
def test_a_slice_has_the_recordings_of_a_list(single, many, part):
    some = many[part]
    assert len(some) == len(single[part])
    assert all(same(before, after) for before, after in zip(single[part], some, strict=True))
    assert some.label.tolist() == many.label.tolist()[part]


def test_a_subset_may_repeat_recordings(single, many):
    some = many.subset(torch.tensor([2, 0, 2]))
    assert [len(one) for one in some] == [8, 5, 8]
    assert same(some[2], single[2])
    assert some.number.tolist() == [60000, 7, 60000]


def test_sets_are_concatenated_in_order(single, many):
    both = Recordings.concatenate([many, many[1:3]])
    assert len(both) == 6
    assert all(same(before, after) for before, after in zip(single + single[1:3], both, strict=True))
    assert both.label.tolist() == [4, 0, 9, 4, 0, 9]
    assert both.offset[-1] == len(both.address)


def test_a_copy_on_a_device_has_the_same_recordings(many):
    copied = many.to("cpu")
    assert all(same(before, after) for before, after in zip(many, copied, strict=True))
    assert copied.sensor == many.sensor


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
        Wrong("nothing to join", lambda: Recordings.concatenate([]), ValueError, "of one camera", "got none"),
    ]
)
def test_what_does_not_fit_is_refused(wrong):
    wrong.assert_says_so()


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.uint64, np.int64])
def test_addresses_are_integers_whatever_the_type_of_the_pixels(kind):
    recording = Recording(np.array([33, 0], kind), np.array([33, 1], kind), np.array([True, False]), np.array([5, 6]))
    assert recording.address.dtype == np.int64
    assert recording.address.tolist() == [2311, 68]
