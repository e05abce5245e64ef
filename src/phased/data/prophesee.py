"""The structure of Prophesee's .raw (EVT2, EVT3) and .dat files, checked before and after they are decoded.

A file is a header of text lines that start with %, and words of 2, 4 or 8 bytes; in .dat files 2 bytes with the type and the size
of an event come between them. The decoder ignores a part of a word at the end and times of .dat files that go back.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phased.data.errors import BadRecording
from phased.data.recording import Integers, Sensor, goes_back, outside_sensor
from phased.data.regular import size_of

AGAIN = "The file is truncated: copy or record it again."
WORDS = {"evt2": 4, "evt3": 2, "dat1": 8, "dat2": 8}
WRAPS = 2**31  # a .dat clock of 32 bits that goes back further than this has wrapped around


def header_size(path: Path) -> int:
    """The size in bytes of the text lines at the start of a file."""
    size = 0
    with path.open("rb") as file:
        for line in file:
            if not line.startswith(b"%") or not _is_text(line):
                break
            size += len(line)
    return size


def check(path: Path, version: str) -> None:
    """Raise `BadRecording` if the file ends within a word or, for .dat, its times go back; with the byte."""
    start, word = body(path, version), WORDS[version]
    over = (size_of(path) - start) % word
    if over:
        raise BadRecording(path, f"each word of {version} must have {word} bytes, got {over}. {AGAIN}", size_of(path) - over)
    if version.startswith("dat"):
        time = _words(path, version)[0::2]
        late, early = time[:-1], time[1:]
        back = (early < late) & (late - early < WRAPS)
        if back.any():
            event = int(back.argmax()) + 1
            what = f"event {event}: {goes_back(int(time[event - 1]), int(time[event]))}"
            raise BadRecording(path, what, start + event * word)


def outside(path: Path, version: str, sensor: Sensor) -> BadRecording | None:
    """The first pixel outside the sensor, with its byte; None if there is none."""
    words = _words(path, version)
    for name, columns, where, pixel in _pixels(words, version):
        bad = where & (pixel >= (sensor.width if name == "x" else sensor.height))
        if bad.any():
            at = int(bad.argmax())
            byte = body(path, version) + at * columns * words.itemsize
            return BadRecording(path, outside_sensor(name, int(pixel[at]), sensor), byte)
    return None


def body(path: Path, version: str) -> int:
    """The byte at which the words start."""
    return header_size(path) + (2 if version.startswith("dat") else 0)


def _pixels(words: Integers, version: str) -> list[tuple[str, int, NDArray[np.bool_], Integers]]:
    """For x and y: the words of an event, which of them have such a pixel, and the pixel."""
    if version == "evt2":
        events = words >> 28 < 2
        return [("x", 1, events, words >> 11 & 0x7FF), ("y", 1, events, words & 0x7FF)]
    if version == "evt3":
        kind = words >> 12
        return [("y", 1, kind == 0, words & 0x7FF), ("x", 1, (kind == 2) | (kind == 3), words & 0x7FF)]
    pixels, bits = words[1::2], (9, 8) if version == "dat1" else (14, 14)
    every = np.ones(len(pixels), bool)
    return [
        ("x", 2, every, pixels & ((1 << bits[0]) - 1)),
        ("y", 2, every, pixels >> bits[0] & ((1 << bits[1]) - 1)),
    ]


def _words(path: Path, version: str) -> Integers:
    start = body(path, version)
    count = (size_of(path) - start) // WORDS[version]
    kind, per_word = ("<u2", 1) if version == "evt3" else ("<u4", WORDS[version] // 4)
    return np.fromfile(path, kind, count * per_word, offset=start)


def _is_text(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
