"""All recordings of a data set, checked and decoded block by block into flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phased.data import native
from phased.data.errors import BadRecording
from phased.data.layout import Member, Source
from phased.data.recording import NMNIST

BLOCK = 2**18 * native.SIZE  # bytes that are decoded at once: their arrays stay in the cache of the CPU
LARGEST = 2**24  # bytes of a recording, hundreds of times those of N-MNIST: an archive can unpack to far more than memory holds

Progress = Callable[[int, int], None]
Block = list[tuple[Member, bytes]]


class Events(Protocol):
    """Where decoded events are put."""

    def put(self, at: int, address: NDArray[np.int16], time: NDArray[np.int32]) -> None:
        """Store the events from number `at` on."""


@dataclass(frozen=True, eq=False)
class Index:
    """Where each recording's events are: `offset` (R + 1,), `label` and `number` (R,); and the files that were left out."""

    offset: NDArray[np.int64]
    label: NDArray[np.int64]
    number: NDArray[np.int64]
    skipped: tuple[BadRecording, ...] = ()


def capacity(members: list[Member]) -> int:
    """The most events that the recordings can have."""
    return sum(member.size // native.SIZE for member in members if member.size <= LARGEST)


def build(source: Source, members: list[Member], events: Events, skip_bad: bool, progress: Progress | None) -> Index:
    """Decode all recordings; bad ones are an error or, with `skip_bad`, left out."""
    kept: list[Member] = []
    skipped: list[BadRecording] = []
    at = 0
    for block in _blocks(source, members, skip_bad, skipped):
        flat = _decoded(block)
        if flat is None:
            block, wrong = _sorted_out(block)
            if not skip_bad:
                raise wrong[0]
            skipped += wrong
            flat = _decoded(block)
        if flat is not None:
            events.put(at, *flat)
            at += len(flat[0])
        kept += [member for member, _ in block]
        if progress is not None:
            progress(len(kept) + len(skipped), len(members))
    if not kept:
        first = skipped[0]
        raise BadRecording(first.path, f"{first.what} All {len(members)} recordings are bad; this is the first.", first.byte)
    lengths = [member.size // native.SIZE for member in kept]
    label, number = np.array([(member.label, member.number) for member in kept], np.int64).T.copy()
    return Index(np.cumsum([0, *lengths], dtype=np.int64), label, number, tuple(skipped))


def _blocks(source: Source, members: list[Member], skip_bad: bool, skipped: list[BadRecording]) -> Iterator[Block]:
    """The files' bytes, some at a time; files that cannot be read are an error, or added to `skipped`."""
    block: Block = []
    size = 0
    for member in members:
        try:
            if member.size > LARGEST:
                raise BadRecording(
                    member.path, f"a recording must have at most {LARGEST:,} bytes, got {member.size:,}. Copy it again."
                )
            data = source.read(member)
            if len(data) != member.size:
                raise BadRecording(
                    member.path,
                    f"it must not change while it is read, got {len(data)} bytes instead of {member.size}. Try again.",
                )
        except BadRecording as error:
            if not skip_bad:
                raise
            skipped.append(error)
            continue
        block.append((member, data))
        size += len(data)
        if size >= BLOCK:
            yield block
            block, size = [], 0
    yield block


def _decoded(block: Block) -> tuple[NDArray[np.int16], NDArray[np.int32]] | None:
    """Addresses and times of all events; None if a file is bad, which one pass over the bytes of all shows."""
    if not all(data and len(data) % native.SIZE == 0 for _, data in block):
        return None
    x, y, polarity, time = native.unpack(b"".join(data for _, data in block))
    back = time[1:] < time[:-1]
    starts = np.cumsum([len(data) // native.SIZE for _, data in block], dtype=np.int64)[:-1]
    back[starts - 1] = False
    if back.any() or x.max(initial=0) >= NMNIST.width or y.max(initial=0) >= NMNIST.height:
        return None
    address = y.astype(np.int16)
    address *= NMNIST.width
    address += x
    address *= 2
    address += polarity.astype(np.int16)
    return address, time.view(np.int32)


def _sorted_out(block: Block) -> tuple[Block, list[BadRecording]]:
    """The good recordings of a block, and what is wrong with the others."""
    defects = [native.defect(data, member.path, NMNIST) for member, data in block]
    good = [one for one, why in zip(block, defects, strict=True) if why is None]
    return good, [why for why in defects if why is not None]
