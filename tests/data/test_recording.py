"""One recording: arrays as tonic has them, addresses, times from the start."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phased.classifier import crop
from phased.data import NMNIST, BadRecording, Recording, Sensor, read
from phased.data.read import READERS
from recordings import assert_equal, recording
from wrong import Wrong, table

FIELDS = {"x": [3, 33, 0], "y": [0, 4, 33], "t": [5, 5, 9], "p": [1, 0, 1]}
COLUMNS = {"x": "x", "y": "y", "t": "time", "p": "polarity"}
integers = st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u2"])


def events(order="xytp", dtypes=None, **changed):
    dtypes = dtypes or {}
    fields = FIELDS | changed
    out = np.zeros(len(fields["x"]), [(name, dtypes.get(name, "i8")) for name in order])
    for name in order:
        out[name] = fields[name]
    return out


@given(st.permutations("xytp"), st.fixed_dictionaries(dict.fromkeys("xyt", integers) | {"p": st.one_of(integers, st.just("?"))}))
def test_fields_may_have_any_order_and_any_integers(order, dtypes):
    made = Recording.from_array(events(order, dtypes), sensor=(34, 34, 2))
    for field, name in COLUMNS.items():
        assert getattr(made, name).tolist() == FIELDS[field]
    assert made.sensor == Sensor(34, 34)


@pytest.mark.parametrize("unit", [1e-6, 1e-3], ids=["seconds", "milliseconds"])
def test_times_in_another_unit_are_read_with_a_warning(unit):
    array = recording(1000).to_array()
    assert len(Recording.from_array(array)) == 1000
    array["t"] = (array["t"] * unit).astype(np.int64)
    with pytest.warns(UserWarning, match=r"1,000 events last \d+ us: .* Multiply seconds by 1e6"):
        Recording.from_array(array)


def test_an_array_of_a_recording_gives_the_recording_with_its_own_memory():
    before = recording(200)
    array = before.to_array()
    assert array.dtype.names == ("x", "y", "t", "p")
    made = Recording.from_array(array, before.sensor)
    array[:] = array[0]
    assert_equal(made, before)


def test_a_part_has_its_events_and_shares_their_memory():
    whole = recording(20)
    part = whole.part(5, 12)
    assert np.array_equal(part.address, whole.address[5:12])
    assert np.array_equal(part.time, whole.time[5:12])
    assert np.shares_memory(part.time, whole.time)
    assert len(whole.part(15, 99)) == 5


def test_times_count_from_the_first_event_when_asked_to():
    late = recording(20, start=10**15)
    early = late.from_start()
    assert early.time[0] == 0
    assert np.array_equal(np.diff(early.time), np.diff(late.time))
    assert len(Recording.from_array(events()[:0]).from_start()) == 0


def _call(*args, **options):
    return lambda: Recording.from_array(*args, **options)


def _made(**changed):
    values = {"x": np.array([3, 33, 0]), "y": np.array([0, 4, 33]), "polarity": np.array([True, False, True])}
    return lambda: Recording(**(values | {"time": np.array([5, 5, 9])} | changed))


SUFFIXES = r"must end in \.bin, \.npy, \.es, \.aedat4, \.raw, \.dat"


def _window(x, y, width=60):
    return lambda: crop(recording(sensor=Sensor(width, 50)), x, y, NMNIST)


UNSIGNED = {"t": "u8"}
FLOATS = "multiply seconds by 1e6"
INSIDE, CHOOSE = "must lie within the recording's 60 x 50", "Choose x up to 26 and y up to 16"


@table(
    [
        Wrong("left", _made(x=np.array([3, -1, 0])), ValueError, "event 1: x must be from 0 to 33", "got -1"),
        Wrong("back", _made(time=np.array([5, 4, 9])), ValueError, "event 1: time must not go back", "got 4 us after 5 us"),
        Wrong("early", _made(time=np.array([-5, 4, 9])), ValueError, "event 0: time must be from 0", "got -5"),
        Wrong("p 2", _made(polarity=np.array([0, 1, 2])), ValueError, "event 2: polarity must be 0 or 1", "got 2"),
        Wrong("p -1 and 0", _made(polarity=np.array([-1, 0, 1])), ValueError, "event 1: .* 0 or 1 throughout, or -1 or", "got 0"),
        Wrong("a window to the right", _window(27, 0), ValueError, INSIDE, "got one at 27,0", CHOOSE),
        Wrong("a window below", _window(0, 17), ValueError, INSIDE, "got one at 0,17", CHOOSE),
        Wrong("a large window", _window(0, 0, width=20), ValueError, "must have at least 34 x 34 pixels", "got 20 x 50", None),
        Wrong("one side", _call(events(), sensor=(34,)), ValueError, r"\(width, height\)", r"got \(34,\)"),
        Wrong("no height", _made(sensor=(34, 0)), ValueError, r"\(width, height\)", r"got \(34, 0\)"),
        Wrong("a suffix", lambda: read("events.h5"), BadRecording, SUFFIXES, "got '.h5'"),
        Wrong("no suffix", lambda: read("events"), BadRecording, SUFFIXES, "got 'no suffix'"),
        Wrong("no fields", _call(np.zeros((3, 4))), TypeError, "structured array with the fields x, y, t and p", "got ndarray"),
        Wrong("a field is missing", _call(events("xyt")), TypeError, "fields x, y, t and p", "got the fields x, y, t"),
        Wrong("unsigned", _call(events(t=[5, 4, 9], dtypes=UNSIGNED)), ValueError, "event 1: time", "4 us after 5"),
        Wrong(
            "late", _call(events(t=[1, 2, 2**63], dtypes=UNSIGNED)), ValueError, "event 2: time must be from 0 to 2", "9223372"
        ),
        Wrong("float polarity", _made(polarity=np.ones(3)), TypeError, "polarity must .* bool or integers", "got float64"),
        Wrong("seconds", _made(time=np.array([0.1, 0.2, 0.3])), TypeError, "time .* integers", "got float64", FLOATS),
        Wrong("a list", _made(x=[3, 33, 0]), TypeError, "x must be a numpy array of integers", "got list"),
        Wrong("a tensor", _made(y=torch.tensor([0, 4, 33])), TypeError, "y must be a numpy array", "got torch.Tensor"),
        Wrong("masked", _made(y=np.ma.masked_equal([0, 4, 33], 4)), TypeError, "y must be a numpy array", "got .*MaskedArray"),
        Wrong("one polarity", _made(polarity=np.array([True])), ValueError, r"polarity must have shape \(3,\)", r"got \(1,\)"),
        Wrong("times in rows", _made(time=np.zeros((3, 1), int)), ValueError, r"time must have shape \(N,\)", r"got \(3, 1\)"),
    ]
)
def test_what_is_no_recording_is_refused_with_a_cure(wrong):
    wrong.assert_says_so()


@pytest.mark.parametrize("low", [0, -1])
def test_polarities_of_integers_become_bits_of_the_address(low):
    for made in (_made(polarity=np.array([1, low, 1]), sensor=(34, 34))(), Recording.from_array(events(p=[1, low, 1]))):
        assert made.polarity.dtype == np.bool_
        assert made.address.tolist() == [7, (4 * 34 + 33) * 2, 33 * 34 * 2 + 1]
        assert made.sensor == Sensor(34, 34)
    assert not Recording.from_array(events(p=[low] * 3)).polarity.any()


def test_an_array_in_a_file_is_read_with_its_sensor(tmp_path):
    large = recording(30, sensor=Sensor(640, 480))
    np.save(tmp_path / "a.npy", large.to_array())
    assert_equal(read(tmp_path / "a.npy", sensor=(640, 480)), large)
    with pytest.raises(BadRecording, match=r"a.npy': event 0: . must be from 0 to 33"):
        read(tmp_path / "a.npy")


def test_an_array_file_that_is_no_recording_is_an_error(tmp_path):
    path, no_array = tmp_path / "a.npy", "one that numpy cannot read"
    np.save(path, events())
    terabyte = path.read_bytes().replace(b"(3,), }" + b" " * 12, b"(3000000000000,), }")
    path.write_bytes(terabyte)  # nothing is allocated
    with pytest.raises(BadRecording, match=rf"{no_array}: mmap length"):
        read(path)
    for array, message in ((np.array([print, None]), no_array), (events()[:0], "must have events, got none")):
        np.save(path, array, allow_pickle=True)  # which is not loaded
        with pytest.raises(BadRecording, match=message):
            read(path)


def test_a_file_that_does_not_fit_into_memory_is_an_error(monkeypatch):
    monkeypatch.setitem(READERS, ".bin", Mock(side_effect=MemoryError))
    with pytest.raises(BadRecording, match=r"'a.bin': it must fit into memory, and does not"):
        read("a.bin")


def test_an_error_is_one_line_whatever_the_name_of_the_file():
    with pytest.raises(BadRecording) as caught:
        read("two\nlines\x1b[31m\udcff ü.txt")
    assert str(caught.value).startswith(r"'two\nlines\x1b[31m\udcff ü.txt': its name must end in")
    assert caught.value.path == "two\nlines\x1b[31m\udcff ü.txt"


@pytest.mark.parametrize("pixels", [np.int8, np.uint8, np.uint32, np.uint64, np.int64])
def test_addresses_are_those_of_the_events_and_a_window_has_those_inside_it_whatever_the_type_of_the_pixels(pixels):
    large = recording(5000, sensor=Sensor(60, 50))
    large = Recording(large.x.astype(pixels), large.y.astype(pixels), large.polarity, large.time, Sensor(400, 300))
    assert large.address.dtype == np.int64
    assert large.address[7] == (int(large.y[7]) * 400 + int(large.x[7])) * 2 + int(large.polarity[7])
    assert len(crop(large, 300, 200, NMNIST)) == 0
    small = crop(large, 20, 10, NMNIST)
    inside = (large.x >= 20) & (large.x < 54) & (large.y >= 10) & (large.y < 44)
    assert 0 < inside.sum() < 5000
    assert small.sensor == NMNIST
    for name, offset in (("x", 20), ("y", 10), ("time", 0), ("polarity", 0)):
        assert np.array_equal(getattr(small, name) + offset, getattr(large, name)[inside])
