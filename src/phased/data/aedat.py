"""The structure of an .aedat4 file, checked before it is decoded.

The decoder takes sizes and offsets of the header as they are: a damaged one makes it read outside its memory, or allocate what a
wrong size says. The file is: a magic line, the size of the header, the header (a FlatBuffer with the compression, the position of
the table of packets, and an XML description), packets (stream, size, content), the table.
"""

from __future__ import annotations

import struct
from pathlib import Path

from phased.data.errors import BadRecording
from phased.data.regular import read_bytes

MAGIC = b"#!AER-DAT4.0\r\n"
HEADER = len(MAGIC) + 4
NO_TABLE = -1
AGAIN = "The file is damaged or truncated: copy or record it again."


def check(path: Path) -> None:
    """Raise `BadRecording` with the byte where header or packets do not fit into the file."""
    data = read_bytes(path)
    if data[: len(MAGIC)] != MAGIC:
        raise BadRecording(path, f"it must start with {MAGIC!r}, got {data[: len(MAGIC)]!r}. {AGAIN}", 0)
    (size,) = _numbers("<I", data, len(MAGIC), path)
    at = HEADER + size
    if at > len(data):
        raise BadRecording(path, f"the header must have {size} bytes, got {len(data) - HEADER}. {AGAIN}", len(MAGIC))
    try:
        table = _header(data[HEADER:at])
    except (ValueError, struct.error) as error:
        raise BadRecording(
            path, f"the header must be a FlatBuffer with a description, got another: {error}. {AGAIN}", HEADER
        ) from error
    while at < len(data) and at != table:
        _, size = _numbers("<iI", data, at, path)
        if at + 8 + size > len(data):
            raise BadRecording(path, f"the packet must have {size} bytes, got {len(data) - at - 8}. {AGAIN}", at + 4)
        at += 8 + size
    if at != table != NO_TABLE:
        raise BadRecording(path, f"packets must end at the table, byte {table}, got an end at byte {at}. {AGAIN}", at)


def _numbers(form: str, data: bytes, at: int, path: Path) -> tuple[int, ...]:
    size = struct.calcsize(form)
    if at + size > len(data):
        raise BadRecording(path, f"a size of {size} bytes must follow, got {len(data) - at} bytes. {AGAIN}", at)
    return struct.unpack_from(form, data, at)


def _header(buffer: bytes) -> int:
    """The position of the table of packets, or -1; every offset that the decoder follows lies in the buffer."""
    (root,) = struct.unpack_from("<I", buffer, 0)
    (back,) = struct.unpack_from("<i", buffer, root)
    fields = root - back
    if fields < 0 or fields % 2 or root % 4:
        raise ValueError(f"its table of fields is at {fields}")
    size, _ = struct.unpack_from("<HH", buffer, fields)
    if size < 4 or fields + size > len(buffer):
        raise ValueError(f"its table of fields has {size} bytes")
    # In this order: compression, position of the table of packets, description.
    offsets = [struct.unpack_from("<H", buffer, fields + at)[0] if at < size else 0 for at in (4, 6, 8)]
    if offsets[0]:
        struct.unpack_from("<i", buffer, root + offsets[0])
    position: int = struct.unpack_from("<q", buffer, root + offsets[1])[0] if offsets[1] else NO_TABLE
    if not offsets[2]:
        raise ValueError("it has no description")
    text = root + offsets[2]
    text += struct.unpack_from("<I", buffer, text)[0]
    (length,) = struct.unpack_from("<I", buffer, text)
    if text + 4 + length > len(buffer):
        raise ValueError(f"its description has {length} bytes")
    buffer[text + 4 : text + 4 + length].decode("utf-8")
    return position
