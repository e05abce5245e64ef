"""N-MNIST's own format: 5 bytes an event, big-endian: x (8 bits), y (8), polarity (1), time in microseconds (23)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phased.data.errors import BadRecording, read_bytes
from phased.data.recording import NMNIST, Recording, Sensor, first_defect

EVENT = np.dtype([("x", "u1"), ("rest", ">u4")])  # rest: y (8 bits), polarity (1), time (23)
SIZE = EVENT.itemsize
TIMES = 2**23


def read_native(path: Path | str, sensor: Sequence[int] = NMNIST) -> Recording:
    """Read a recording of N-MNIST.

    Args:
        path: a `.bin` file of N-MNIST, or of another data set in its format.
        sensor: the size of the camera; the file does not contain it.

    Returns:
        The recording.

    Raises:
        BadRecording: the file cannot be read, is empty or truncated, has a pixel outside the sensor, or a time that goes back.
    """
    return decode(read_bytes(path), path, sensor)


def decode(data: bytes, path: Path | str = "bytes", sensor: Sequence[int] = NMNIST) -> Recording:
    """A recording from the bytes of a file; `path` is its name in errors.

    Example:
        >>> decode(bytes([3, 4, 0x80, 0, 10, 5, 6, 0, 0, 12])).time
        array([10, 12])
    """
    size = Sensor.of(sensor)
    if not data:
        raise BadRecording(path, "a recording must have events, got an empty file. Copy or unpack it again.", 0)
    whole, over = divmod(len(data), SIZE)
    if over:
        what = f"each event must have {SIZE} bytes, got {over} after {whole} whole events. "
        what += "The file is truncated or not of N-MNIST: copy or unpack it again."
        raise BadRecording(path, what, whole * SIZE)
    events = np.frombuffer(data, EVENT)
    rest = events["rest"].astype(np.int64)
    x, y, time = events["x"].astype(np.int32), (rest >> 24).astype(np.int32), rest & (TIMES - 1)
    defect = first_defect(x, y, time, size)
    if defect is not None:
        raise BadRecording(path, f"event {defect.event}: {defect.what}", defect.event * SIZE)
    return Recording.of_checked(x, y, (rest & TIMES) != 0, time, size)


def encode(recording: Recording) -> bytes:
    """The bytes of a recording, as a file of N-MNIST has them; times below 2**23 us, pixels below 256.

    Example:
        >>> decode(encode(decode(bytes([3, 4, 0x80, 0, 10])))).x
        array([3], dtype=int32)
    """
    largest = {"x": 256, "y": 256, "time": TIMES}
    for name, end in largest.items():
        values = getattr(recording, name)
        if len(values) and not (values.min() >= 0 and values.max() < end):
            raise ValueError(
                f"{name} must be from 0 to {end - 1} in the format of N-MNIST, got {values.min()} to {values.max()}."
                + (" Call Recording.from_start() first." if name == "time" else " Save to_array() with numpy.save instead.")
            )
    events = np.empty(len(recording), EVENT)
    events["x"] = recording.x
    events["rest"] = recording.y.astype(np.int64) << 24 | recording.polarity.astype(np.int64) << 23 | recording.time
    return events.tobytes()
