"""Files of event cameras (.es, .aedat4, .raw, .dat), read through faery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased.data import aedat, event_stream, prophesee
from phased.data.errors import BadRecording
from phased.data.recording import Recording, Sensor, first_defect
from phased.data.regular import size_of

UNKNOWN = (0, 0)


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
    faery = _faery(path)
    version = _check(faery, path)
    size = UNKNOWN if sensor is None else Sensor.of(sensor)
    found, events = _decode(faery, path, tuple(size), version)
    if path.suffix.lower() == ".es":
        event_stream.check_end(path, events)
    if not len(events):
        raise BadRecording(path, "a recording must have events, got none. Record it again, or read another stream of it.")
    x, y, time = (events[name] for name in ("x", "y", "t"))
    defect = first_defect(x, y, time, found)
    if defect is not None:
        raise BadRecording(path, f"event {defect.event}: {defect.what}")
    return Recording(x.astype(np.int32), y.astype(np.int32), events["on"].astype(bool), time.astype(np.int64), found)


def _faery(path: Path) -> ModuleType:
    try:
        import faery
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"reading '{path}' needs faery, which is not installed. Install it with: pip install 'phased[events]'", name="faery"
        ) from error
    return faery  # type: ignore[no-any-return]


def _check(faery: ModuleType, path: Path) -> str | None:
    """The version of a file of Prophesee; an error for what the decoder would not notice or could not survive."""
    suffix = path.suffix.lower()
    if suffix == ".aedat4":
        aedat.check(path)
    if suffix not in (".raw", ".dat"):
        return None
    if suffix == ".raw" and not prophesee.header_size(path):
        raise BadRecording(path, "it must start with a header, lines that begin with %, got none. Copy or record it again.", 0)
    decoder = faery.evt.Decoder if suffix == ".raw" else faery.dat.Decoder
    opened = _guarded(path, lambda: decoder(path, (1, 1), "evt3" if suffix == ".raw" else "dat2"))
    version = str(opened.version)
    if version not in prophesee.WORDS:
        raise BadRecording(path, f"the format must be EVT2 or EVT3, got {version}. Convert it with the camera's software.")
    prophesee.check(path, version)
    return version


def _decode(faery: ModuleType, path: Path, fallback: tuple[int, ...], version: str | None) -> tuple[Sensor, NDArray[np.void]]:
    """The size of the sensor and all events."""
    stream = _guarded(path, lambda: faery.events_stream_from_file(path, dimensions_fallback=fallback))
    size = tuple(stream.dimensions())
    if size == UNKNOWN:
        raise BadRecording(
            path, "its header must have the size of the sensor, got none. Pass sensor=(width, height) or --sensor."
        )
    try:
        packets = _guarded(path, lambda: [np.array(packet) for packet in stream])
    except BadRecording:
        where = _where(path, version, Sensor(*size))
        if where is not None:
            raise where from None
        raise
    events = np.concatenate(packets) if packets else np.empty(0, faery.EVENTS_DTYPE)
    return Sensor(*size), events


def _where(path: Path, version: str | None, sensor: Sensor) -> BadRecording | None:
    """The defect that stopped the decoder, with its byte; None if it cannot be found."""
    if path.suffix.lower() == ".es":
        return event_stream.first_defect(path)
    return prophesee.outside(path, version, sensor) if version else None


def _guarded(path: Path, call: Any) -> Any:
    """The result of a call of faery; its errors, and the panics of its Rust code, as `BadRecording`."""
    try:
        return call()
    except Exception as error:
        raise _damaged(path, error) from error
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":  # KeyboardInterrupt, SystemExit
            raise
        raise _damaged(path, error) from error


def _damaged(path: Path, error: BaseException) -> BadRecording:
    said = " ".join(str(error).split())
    return BadRecording(
        path, f"it must be a whole {path.suffix} file, got one that faery cannot decode: {said}. Copy or record it again."
    )
