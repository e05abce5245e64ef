"""Event files of every kind, for tests."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phased.data import Recording, Sensor, encode

SENSOR = Sensor(40, 30)
CAMERA_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "es": ("a.es", {}),
    "aedat4": ("plain.aedat4", {"compression": None}),
    "aedat4 lz4": ("lz4.aedat4", {"compression": ("lz4", 1)}),
    "aedat4 zstd": ("zstd.aedat4", {"compression": ("zstd", 3)}),
    "evt2": ("evt2.raw", {"version": "evt2"}),
    "evt3": ("evt3.raw", {"version": "evt3"}),
    "dat1": ("dat1.dat", {"version": "dat1"}),
    "dat2": ("dat2.dat", {"version": "dat2"}),
}
KINDS = {"bin": ("a.bin", {}), "npy": ("a.npy", {})} | CAMERA_FILES


def write(path: Path, recording: Recording, **options: Any) -> Path:
    """Write a recording; the suffix of the path says how."""
    if path.suffix == ".bin":
        path.write_bytes(encode(recording))
    elif path.suffix == ".npy":
        np.save(path, recording.to_array())
    else:
        faery = pytest.importorskip("faery")
        events = np.empty(len(recording), faery.EVENTS_DTYPE)
        events["x"], events["y"], events["t"], events["on"] = recording.x, recording.y, recording.time, recording.polarity
        faery.events_stream_from_array(events, tuple(recording.sensor)).to_file(path, **options)
    return path
