"""N-MNIST's own format: what is written is read, and every defect is an error with its byte."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.data import BadRecording, Recording, Sensor, decode, encode, read_native
from recordings import assert_equal, recording


def test_an_event_is_x_y_polarity_and_time_in_40_bits_big_endian():
    made = decode(bytes([3, 33, 0x12, 0x34, 0x56, 33, 0, 0xFF, 0xFF, 0xFF]))
    assert (made.x.tolist(), made.y.tolist()) == ([3, 33], [33, 0])
    assert (made.polarity.tolist(), made.time.tolist()) == ([False, True], [0x123456, 2**23 - 1])


@given(events=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_encoding_and_decoding_gives_the_same_recording(events, seed):
    made = recording(events, seed, duration=2**23)
    again = decode(encode(made))
    assert_equal(again, made)
    assert (again.polarity.dtype, again.time.dtype) == (bool, np.int64)


GOOD = bytes([1, 2, 0, 0, 10])


@pytest.mark.parametrize(
    "content, byte, message",
    [
        (b"", 0, "a recording must have events, got an empty file. Copy"),
        (GOOD + b"\1\2", 5, "each event must have 5 bytes, got 2 after 1 whole events. The file is truncated"),
        (GOOD + bytes([34, 0, 0, 0, 10]), 5, "event 1: x must be from 0 to 33 on a sensor of 34 x 34 pixels, got 34. The data"),
        (GOOD * 2 + bytes([0, 255, 0, 0, 10]), 10, "event 2: y must be from 0 to 33 on a sensor of 34 x 34 pixels, got 255. The"),
        (GOOD + bytes([0, 0, 0, 0, 9]), 5, "event 1: time must not go back, got 9 us after 10 us. Sort the events"),
        (bytes([0, 0, 127, 255, 255]) + GOOD, 5, "event 1: time must not go back, got 10 us after 8388607 us"),
        (bytes([99, 0, 0, 0, 9]) + GOOD[::-1], 0, "event 0: x must be"),
    ],
    ids=["empty", "truncated", "x", "y", "unsorted", "wrapped", "two defects: the first"],
)
def test_a_defect_is_named_with_file_and_byte(tmp_path, content, byte, message):
    path = tmp_path / "00001.bin"
    path.write_bytes(content)
    with pytest.raises(BadRecording) as caught:
        read_native(path)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith(f"'{path}', byte {byte}: {message}")
    assert (caught.value.path, caught.value.byte) == (str(path), byte)


@pytest.mark.parametrize("name, cure", [("x", "numpy.save"), ("y", "numpy.save"), ("time", "from_start")])
def test_what_the_format_cannot_hold_is_not_written(name, cure):
    parts = {"x": np.array([1]), "y": np.array([1]), "time": np.array([1])} | {name: np.array([2**23])}
    with pytest.raises(ValueError, match=rf"{name} must be from 0 to .* got 8388608 to 8388608.*{cure}"):
        encode(Recording(parts["x"], parts["y"], np.array([True]), parts["time"], Sensor(2**24, 2**24)))
