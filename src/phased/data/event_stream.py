"""The structure of an .es file (Event Stream 2): where it ends within an event, or has a pixel outside its sensor.

A header of 20 bytes has the type of the events at byte 15 and the size of the sensor after it. An event has 5 bytes: interval and
polarity, x (16 bits), y (16). A single byte before it lengthens an interval that is too long for the event's own byte.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phased.data.errors import BadRecording
from phased.data.recording import Sensor, outside_sensor
from phased.data.regular import read_bytes

HEADER, KIND, EVENT = 20, 15, 5
DVS = 1
LONGER = {DVS: 0xFE, 2: 0xFC}
"""For each type of events with a sensor, the bytes from this on lengthen an interval."""
LONGEST = 127  # the most microseconds that such a byte of type DVS stands for


def check_end(path: Path, events: NDArray[np.void]) -> None:
    """Raise `BadRecording` if the file ends within an event: the decoder leaves a part of one out."""
    data = read_bytes(path)
    if data[KIND] == DVS:
        # Intervals in their shortest form: all events end here, and bytes of one more interval may follow.
        longer = int((np.diff(events["t"].astype(np.int64), prepend=0) // LONGEST).sum())
        if not data[HEADER + EVENT * len(events) + longer :].strip(b"\xff"):
            return
    found = first_defect(path)
    if found is not None:
        raise found


def first_defect(path: Path) -> BadRecording | None:
    """Go through the file event by event: the first one outside the sensor or without its end, with its byte; or None."""
    data = read_bytes(path)
    if len(data) < HEADER or data[KIND] not in LONGER:
        return None
    sensor, longer, at = Sensor(*struct.unpack_from("<HH", data, KIND + 1)), LONGER[data[KIND]], HEADER
    while at < len(data):
        if data[at] >= longer:
            at += 1
            continue
        if at + EVENT > len(data):
            what = f"each event must have {EVENT} bytes, got {len(data) - at}. The file is truncated: copy or record it again."
            return BadRecording(path, what, at)
        x, y = struct.unpack_from("<HH", data, at + 1)
        if x >= sensor.width or y >= sensor.height:
            what = outside_sensor("x", x, sensor) if x >= sensor.width else outside_sensor("y", y, sensor)
            return BadRecording(path, what, at + (1 if x >= sensor.width else 3))
        at += EVENT
    return None
