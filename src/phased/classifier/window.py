"""A window of a larger sensor."""

from __future__ import annotations

from phased.data.recordings import Recording, Sensor


def crop(recording: Recording, x: int, y: int, sensor: Sensor) -> Recording:
    """Take the events in a window of a recording.

    Args:
        recording: The recording.
        x: Column of the window's left edge.
        y: Row of the window's upper edge.
        sensor: The size of the window.

    Returns:
        The events in the window, with pixels counted from its upper left corner.

    Raises:
        ValueError: The window does not lie within the recording's sensor.

    Example:
        >>> import numpy as np
        >>> from phased.classifier import crop
        >>> from phased.data.recordings import NMNIST, Recording, Sensor
        >>> large = Recording(np.array([100, 110]), np.array([80, 20]), np.ones(2, bool), np.array([5, 9]), Sensor(346, 260))
        >>> crop(large, 90, 70, NMNIST).x
        array([10])
    """
    width, height = recording.sensor
    if not (0 <= x <= width - sensor.width and 0 <= y <= height - sensor.height):
        raise ValueError(
            f"a window of {sensor.width} x {sensor.height} pixels must lie within the recording's {width} x {height}, got one at "
            f"{x},{y}. Choose x up to {width - sensor.width} and y up to {height - sensor.height}."
            if width >= sensor.width and height >= sensor.height
            else f"the recording must have at least {sensor.width} x {sensor.height} pixels, got {width} x {height}."
        )
    inside = (recording.x >= x) & (recording.x < x + sensor.width) & (recording.y >= y) & (recording.y < y + sensor.height)
    columns, rows = recording.x[inside] - x, recording.y[inside] - y
    return Recording(columns, rows, recording.polarity[inside], recording.time[inside], sensor)
