"""Event files of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phased.data.errors import BadRecording, size_of
from phased.data.nmnist_file import read_native
from phased.data.recording import NMNIST, Recording
from phased.lazy import Functions


def read_npy(path: Path | str, sensor: Sequence[int] = NMNIST) -> Recording:
    """Read a structured array in an `.npy` file; `Recording.from_array` says which. The file does not contain the sensor."""
    size_of(path)
    try:
        # Mapped: an array larger than its file is refused before memory is allocated; Python objects are refused always.
        events = np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except Exception as error:  # the header is Python source, and numpy does not say what its parsers raise
        said = " ".join(str(error).split())
        what = f"it must be a whole .npy file, got one that numpy cannot read: {said}. Save it again."
        raise BadRecording(path, what) from error
    try:
        recording = Recording.from_array(events, sensor)
    except (TypeError, ValueError) as error:
        raise BadRecording(path, str(error)) from error
    if not len(recording):
        raise BadRecording(path, "a recording must have events, got none. Save it again.")
    return recording


read_camera = Functions("phased.data.camera_files").read_with_faery
READERS: dict[str, Callable[..., Recording]] = {
    ".bin": read_native,
    ".npy": read_npy,
    ".es": read_camera,
    ".aedat4": read_camera,
    ".raw": read_camera,
    ".dat": read_camera,
}


def read(path: Path | str, sensor: Sequence[int] | None = None) -> Recording:
    """Read an event file; its suffix says which kind it is.

    Args:
        path: `.bin` (N-MNIST), `.npy` (a structured array), `.es`, `.aedat4`, `.raw` (EVT2, EVT3) or `.dat`.
        sensor: (width, height) in pixels, for files that do not contain it. `.bin` and `.npy` never do: 34 x 34 by default.

    Returns:
        The recording. Times are those of the file and may start anywhere: see `Recording.from_start`.

    Raises:
        BadRecording: the file cannot be read, is empty, truncated, damaged or of an unknown kind, has a pixel outside the
            sensor, or is not sorted by time. It is a ValueError, with the attributes `path` and `byte`.
        ModuleNotFoundError: the file is one of an event camera, and faery is not installed.

    Example:
        >>> from tempfile import mkdtemp
        >>> import numpy as np
        >>> path = Path(mkdtemp()) / "00001.bin"
        >>> np.array([3, 4, 0x80, 0, 10, 5, 6, 0, 0, 12], np.uint8).tofile(path)
        >>> read(path).x
        array([3, 5], dtype=int32)
    """
    reader = READERS.get(Path(path).suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise BadRecording(path, f"its name must end in {known}, got {Path(path).suffix or 'no suffix'!r}. Convert or rename it.")
    options: dict[str, Any] = {} if sensor is None else {"sensor": sensor}
    try:
        return reader(path, **options)
    except MemoryError as error:
        raise BadRecording(path, "it must fit into memory, and does not. Read it on a larger machine, or in parts.") from error
