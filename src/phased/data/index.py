"""All recordings of a data set, checked and decoded into flat arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from phased.data import native
from phased.data.errors import BadRecording
from phased.data.layout import Member, Source
from phased.data.recording import NMNIST
from phased.data.recordings import Recordings

LARGEST = 2**24  # bytes of a recording, hundreds of times those of N-MNIST: an archive can unpack to far more than memory holds

Progress = Callable[[int, int], None]


def build(source: Source, skip_bad: bool, progress: Progress | None) -> tuple[Recordings, list[BadRecording]]:
    """Decode all recordings; bad ones are an error or, with `skip_bad`, left out and named."""
    members = source.members()
    room = sum(member.size // native.SIZE for member in members if member.size <= LARGEST)
    address, time, end = np.empty(room, np.int16), np.empty(room, np.int32), 0
    kept: list[Member] = []
    offset: list[int] = [0]
    skipped: list[BadRecording] = []
    for done, member in enumerate(members, 1):
        try:
            x, y, polarity, t = native.unpack(_checked(source, member))
        except BadRecording as error:
            if not skip_bad:
                raise
            skipped.append(error)
        else:
            begin, end = end, end + len(t)
            address[begin:end] = (y.astype(np.int16) * NMNIST.width + x) * 2 + polarity.astype(np.int16)
            time[begin:end] = t
            kept.append(member)
            offset.append(end)
        if progress is not None:
            progress(done, len(members))
    if not kept:
        first = skipped[0]
        raise BadRecording(first.path, f"{first.what} All {len(members)} recordings are bad; this is the first.", first.byte)
    label, number = torch.tensor([(member.label, member.number) for member in kept]).T
    made = torch.from_numpy(address[:end]), torch.from_numpy(time[:end]), torch.tensor(offset), label, number
    return Recordings(*made), skipped


def _checked(source: Source, member: Member) -> bytes:
    """The bytes of a recording without a defect."""
    if member.size > LARGEST:
        what = f"a recording must have at most {LARGEST:,} bytes, got {member.size:,}. Copy it again."
        raise BadRecording(member.path, what)
    data = source.read(member)
    if len(data) != member.size:
        what = f"it must not change while it is read, got {len(data)} bytes instead of {member.size}. Try again."
        raise BadRecording(member.path, what)
    why = native.defect(data, member.path, NMNIST)
    if why is not None:
        raise why
    return data
