"""Parts: one thing for each layer of a fusion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Parts(NamedTuple):
    """One thing for each layer of a `Fusion`, such as its state or its count of updates.

    Args:
        sensors: That of each sensor's layer, by the name of the sensor.
        merged: That of the merged layer.
    """

    sensors: Mapping[str, Any]
    merged: Any
