"""Indexed recordings in one file, memory-mapped: an open reads the index alone, an access the events it needs.

The file has the addresses (int16) and the times (int32), each with room for all events of the data set, the index with its
SHA-256, the size of the index (8 bytes), and a magic number (8 bytes). A file that was cut off has no index that fits: it is not
used.
"""

from __future__ import annotations

import json
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from phased import files
from phased.data.errors import BadRecording
from phased.data.index import Index
from phased.data.recordings import Recordings

MAGIC = b"phased1\n"
FOOTER = struct.Struct("<Q8s")
ALIGNED = 64


class Target(Protocol):
    """A file, or memory that is used as one."""

    def seek(self, position: int, /) -> Any:
        """Go to a byte."""

    def write(self, data: Any, /) -> Any:
        """Write from there on."""


@dataclass(frozen=True)
class Regions:
    """The place of addresses and times in a file with room for `capacity` events."""

    capacity: int

    @property
    def times(self) -> int:
        """The byte at which the times start."""
        return -(-2 * self.capacity // ALIGNED) * ALIGNED

    @property
    def size(self) -> int:
        """The bytes of both."""
        return self.times + 4 * self.capacity


@dataclass(frozen=True)
class Writer:
    """Puts events into their regions of a file."""

    file: Target
    regions: Regions

    def put(self, at: int, address: NDArray[np.int16], time: NDArray[np.int32]) -> None:
        """Store the events from number `at` on."""
        for begin, values in ((2 * at, address), (self.regions.times + 4 * at, time)):
            self.file.seek(begin)
            self.file.write(np.ascontiguousarray(values).data)

    def finish(self, index: Index, key: str) -> None:
        """Store the index of a data set with this key."""
        about = {
            "key": key,
            "capacity": self.regions.capacity,
            "recordings": len(index.label),
            "skipped": [(error.path, error.what, error.byte) for error in index.skipped],
        }
        arrays = b"".join(part.astype("<i8").tobytes() for part in (index.offset, index.label, index.number))
        sealed = files.seal(json.dumps(about).encode() + b"\n" + arrays)
        self.file.seek(self.regions.size)
        self.file.write(sealed + FOOTER.pack(len(sealed), MAGIC))


def load(path: Path, key: str) -> tuple[Recordings, tuple[BadRecording, ...]] | None:
    """The recordings in a file and those that were skipped; None if there is no whole file of a data set with this key."""
    try:
        regions, index = _read_index(path, key)
        # Copy-on-write: torch gets arrays that it may write to, and the file stays as it is.
        raw = np.memmap(path, np.uint8, mode="c", shape=(regions.size,))
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
    return recordings(raw, regions, index), index.skipped


def recordings(raw: NDArray[np.uint8] | mmap.mmap, regions: Regions, index: Index) -> Recordings:
    """The recordings in memory that has the regions of a file; nothing is copied."""
    count = int(index.offset[-1])
    address = np.frombuffer(raw, np.int16, count)
    time = np.frombuffer(raw, np.int32, count, offset=regions.times)
    tensor = torch.from_numpy
    return Recordings(tensor(address), tensor(time), tensor(index.offset), tensor(index.label), tensor(index.number))


def _read_index(path: Path, key: str) -> tuple[Regions, Index]:
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(end - FOOTER.size)
        size, magic = FOOTER.unpack(file.read())
        if magic != MAGIC or size > end:
            raise files.Damaged("it has no index")
        file.seek(end - FOOTER.size - size)
        about, _, arrays = files.unseal(file.read(size)).partition(b"\n")
    header = json.loads(about)
    regions, count = Regions(header["capacity"]), header["recordings"]
    if header["key"] != key or end != regions.size + size + FOOTER.size:
        raise files.Damaged("it is of another data set, or of another size")
    values = np.frombuffer(arrays, "<i8").astype(np.int64)
    offset, label, number = np.split(values, [count + 1, 2 * count + 1])
    return regions, Index(offset, label, number, tuple(BadRecording(*error) for error in header["skipped"]))
