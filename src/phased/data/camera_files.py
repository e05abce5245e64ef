"""Files of event cameras (.es, .aedat4, .raw, .dat), read through faery.

What is checked here are files that end the process when faery reads them, or that it reads without an error and with other events
than were recorded. All other defects are named by faery.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from phased.data.errors import BadRecording, read_bytes, size_of
from phased.data.recording import Recording, Sensor, goes_back
from phased.lazy import module

UNKNOWN = (0, 0)
AGAIN = "The file is damaged or truncated: copy or record it again."
ES_HEADER, ES_KIND, ES_EVENT = 20, 15, 5  # bytes: of the header, where the type of the events is, of an event
ES_LONGER = {1: 0xFE, 2: 0xFC}  # for each type of events with a sensor, bytes from this on lengthen the interval before an event
AEDAT_HEADER = 18  # bytes: a magic line and the size of the header
DAT_WRAPS = 2**31  # us: a clock of 32 bits that goes back further than this has wrapped around


def read_with_faery(path: Path | str, sensor: Sequence[int] | None = None) -> Recording:
    """Read a file of an event camera.

    Args:
        path: an `.es` (Event Stream), `.aedat4` (DV), `.raw` (Prophesee EVT2, EVT3) or `.dat` (Prophesee) file.
        sensor: the size of the camera, for `.raw` and `.dat` files that do not contain it.

    Returns:
        The recording; times are those of the file.

    Raises:
        BadRecording: the file cannot be read, is damaged or truncated, or has no events.
        ModuleNotFoundError: faery is not installed.
    """
    path = Path(path)
    if size_of(path) == 0:
        raise BadRecording(path, "a recording must have events, got an empty file. Copy or record it again.", 0)
    faery = module("faery", f"reading '{path}'", "events")
    try:
        size, events = _decoded(faery, path, UNKNOWN if sensor is None else tuple(Sensor.of(sensor)))
    except (BadRecording, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":  # KeyboardInterrupt, SystemExit
            raise
        said = " ".join(str(error).split())
        what = f"it must be a whole {path.suffix} file, got one that faery cannot decode: {said}. Copy or record it again."
        raise BadRecording(path, what) from error
    if not len(events):
        raise BadRecording(path, "a recording must have events, got none. Record it again, or read another stream of it.")
    x, y, time = events["x"].astype(np.int32), events["y"].astype(np.int32), events["t"].astype(np.int64)
    return Recording(x, y, events["on"].astype(bool), time, size)


def _decoded(faery: ModuleType, path: Path, fallback: tuple[int, ...]) -> tuple[Sensor, Any]:
    """The size of the sensor and all events."""
    checks: dict[str, Callable[[ModuleType, Path], None]] = {".aedat4": _check_aedat, ".es": _check_es}
    checks.get(path.suffix.lower(), _check_prophesee)(faery, path)
    stream = faery.events_stream_from_file(path, dimensions_fallback=fallback)
    size = tuple(stream.dimensions())
    if size == UNKNOWN:
        what = "its header must have the size of the sensor, got none. Pass sensor=(width, height) or --sensor."
        raise BadRecording(path, what)
    packets = [np.array(packet) for packet in stream]
    return Sensor(*size), np.concatenate(packets) if packets else np.empty(0, faery.EVENTS_DTYPE)


def _check_prophesee(faery: ModuleType, path: Path) -> None:
    """An error for words without a header, a part of a word at the end and, in .dat files, times that go back.

    A file is lines of text that start with %, and words of 2, 4 or 8 bytes; in .dat files the type and the size of an event, a
    byte each, come between them.
    """
    start = 0
    with path.open("rb") as file:
        while (line := file.readline()).startswith(b"%"):
            start += len(line)
    if path.suffix.lower() == ".dat":
        start, word = start + 2, 8
    elif not start:
        raise BadRecording(path, "it must start with a header, lines that begin with %, got none. Copy or record it again.", 0)
    else:
        word = 2 if str(faery.evt.Decoder(path, (1, 1), "evt3").version) == "evt3" else 4
    over = max(size_of(path) - start, 0) % word
    if over:
        raise BadRecording(path, f"each event must have {word} bytes, got {over}. {AGAIN}", size_of(path) - over)
    if word == 8:
        time = np.fromfile(path, "<u4", offset=start)[0::2]
        back = (time[1:] < time[:-1]) & (time[:-1] - time[1:] < DAT_WRAPS)
        if back.any():
            event = int(back.argmax()) + 1
            what = f"event {event}: {goes_back(int(time[event - 1]), int(time[event]))}"
            raise BadRecording(path, what, start + event * word)


def _check_es(faery: ModuleType, path: Path) -> None:
    """An error for a part of an event at the end: interval and polarity in a byte, x and y in two each."""
    data = read_bytes(path)
    longer = ES_LONGER.get(data[ES_KIND]) if len(data) >= ES_HEADER else None
    if longer is None:
        return
    at = ES_HEADER
    while at < len(data):
        at += 1 if data[at] >= longer else ES_EVENT
    if at > len(data):
        over = len(data) + ES_EVENT - at
        raise BadRecording(path, f"each event must have {ES_EVENT} bytes, got {over}. {AGAIN}", len(data) - over)


def _check_aedat(faery: ModuleType, path: Path) -> None:
    """An error for a description that is not text, and for packets that do not fit into the file.

    faery ends the process over the first, and allocates what the size of a packet says. The file is: a magic line, the size of
    the header, the header, packets (stream, size, content), and a table of the packets. The header is a FlatBuffer with three
    fields: the compression, the position of the table, and a description in XML.
    """
    data = read_bytes(path)
    if len(data) < AEDAT_HEADER:
        return
    (size,) = struct.unpack_from("<I", data, AEDAT_HEADER - 4)
    at = AEDAT_HEADER + size
    if at > len(data):
        raise BadRecording(path, f"the header must have {size} bytes, got {len(data) - AEDAT_HEADER}. {AGAIN}", AEDAT_HEADER - 4)
    try:
        table = _table_of_aedat(data[AEDAT_HEADER:at])
    except (UnicodeDecodeError, struct.error) as error:
        what = f"the header must be a FlatBuffer with a description, got another: {error}. {AGAIN}"
        raise BadRecording(path, what, AEDAT_HEADER) from error
    while at + 8 <= len(data) and at != table:
        (size,) = struct.unpack_from("<I", data, at + 4)
        if at + 8 + size > len(data):
            raise BadRecording(path, f"the packet must have {size} bytes, got {len(data) - at - 8}. {AGAIN}", at + 4)
        at += 8 + size


def _table_of_aedat(header: bytes) -> int:
    """The position of the table of packets, or -1; an error unless the description is UTF-8."""
    (root,) = struct.unpack_from("<I", header)
    fields = root - struct.unpack_from("<i", header, root)[0]
    table, description = (root + struct.unpack_from("<H", header, fields + at)[0] for at in (6, 8))
    text = description + struct.unpack_from("<I", header, description)[0]
    (length,) = struct.unpack_from("<I", header, text)
    header[text + 4 : text + 4 + length].decode("utf-8")
    return -1 if table == root else int(struct.unpack_from("<q", header, table)[0])
