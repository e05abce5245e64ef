"""Structured arrays in .npy files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phased.data.errors import BadRecording
from phased.data.recording import NMNIST, Recording
from phased.data.regular import size_of


def read_npy(path: Path | str, sensor: Sequence[int] = NMNIST) -> Recording:
    """Read a structured array that `numpy.save` has written.

    Args:
        path: an `.npy` file with an array that `Recording.from_array` takes.
        sensor: the size of the camera; the file does not contain it.

    Returns:
        The recording.

    Raises:
        BadRecording: the file cannot be read, is damaged or truncated, or has another array.
    """
    size_of(path)
    try:
        # Mapped: an array larger than its file is refused before memory is allocated; Python objects are refused always.
        events = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is Python source, and numpy does not say what its parsers raise
        said = " ".join(str(error).split())
        raise BadRecording(
            path, f"it must be a whole .npy file, got one that numpy cannot read: {said}. Save it again."
        ) from error
    try:
        recording = Recording.from_array(np.asarray(events), sensor)
    except (TypeError, ValueError) as error:
        raise BadRecording(path, str(error)) from error
    if not len(recording):
        raise BadRecording(path, "a recording must have events, got none. Save it again.")
    return recording
