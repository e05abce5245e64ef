"""The events of one recording of an event camera."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased import notice

Integers = NDArray[np.integer[Any]]

TONIC = np.dtype([("x", np.int16), ("y", np.int16), ("t", np.int64), ("p", np.bool_)])
"""The fields of an array of events, in the units of tonic: pixels and microseconds."""


MICROSECONDS = 1000.0  # in a millisecond, the networks' unit of time
MANY = 1000  # events: so many in less than a millisecond have times in another unit


class Sensor(NamedTuple):
    """The size of a camera in pixels."""

    width: int
    height: int

    @property
    def addresses(self) -> int:
        """The number of different events: two polarities at every pixel."""
        return 2 * self.width * self.height

    @classmethod
    def of(cls, size: Sequence[int]) -> Sensor:
        """A sensor from (width, height), or from tonic's (width, height, 2)."""
        sizes = tuple(int(value) for value in size)
        if len(sizes) not in (2, 3) or min(sizes[:2]) < 1 or sizes[2:] not in ((), (2,)):
            raise ValueError(f"sensor must be (width, height) in pixels, got {sizes}. Pass Sensor(34, 34) for N-MNIST.")
        return cls(*sizes[:2])


NMNIST = Sensor(34, 34)


@dataclass(frozen=True, eq=False)
class Recording:
    """The events of one recording, sorted by time.

    The arrays are checked once, here, and not copied: do not change them later.

    Args:
        x: column of the pixel, from the left, (N,) integers.
        y: row of the pixel, from the top, (N,) integers.
        polarity: the polarity bit, (N,) bool; integers 0 and 1, or -1 and 1, become bool.
        time: microseconds, (N,) int64, never decreasing.
        sensor: the size of the camera.

    Raises:
        TypeError: x, y, polarity or time is no array of integers.
        ValueError: The arrays differ in length, an event is outside the sensor, or the events are not sorted by time.
    """

    x: Integers
    y: Integers
    polarity: NDArray[np.bool_]
    time: NDArray[np.int64]
    sensor: Sensor = NMNIST

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensor", Sensor.of(self.sensor))
        for name in ("time", "x", "y", "polarity"):
            _column(name, getattr(self, name), self.time)
        defect = first_defect(self.x, self.y, self.time, self.sensor) or _polarity_defect(self.polarity)
        if defect is not None:
            raise ValueError(f"event {defect.event}: {defect.what}")
        if self.polarity.dtype.kind != "b":
            object.__setattr__(self, "polarity", self.polarity > 0)

    @classmethod
    def of_checked(cls, x: Integers, y: Integers, polarity: NDArray[Any], time: NDArray[Any], sensor: Sensor) -> Recording:
        """A recording of arrays that were checked before."""
        made = object.__new__(cls)
        made.__dict__.update(x=x, y=y, polarity=polarity, time=time, sensor=sensor)
        return made

    def __len__(self) -> int:
        return len(self.time)

    def part(self, begin: int, end: int) -> Recording:
        """The events from index `begin` to `end`, without that one; nothing is copied."""
        some = slice(begin, end)
        return self.of_checked(self.x[some], self.y[some], self.polarity[some], self.time[some], self.sensor)

    @property
    def address(self) -> NDArray[np.int64]:
        """The address of each event, (N,): (y * width + x) * 2 + polarity."""
        x, y = self.x.astype(np.int64), self.y.astype(np.int64)  # uint64 and int64 together would become float64
        return (y * self.sensor.width + x) * 2 + self.polarity

    def from_start(self) -> Recording:
        """The same events with times that count from the first one."""
        return replace(self, time=self.time - self.time[:1])

    def to_array(self) -> NDArray[np.void]:
        """The events as a structured array with the fields x, y, t and p, as tonic's transforms take them, (N,)."""
        events = np.empty(len(self), TONIC)
        events["x"], events["y"], events["t"], events["p"] = self.x, self.y, self.time, self.polarity
        return events

    @classmethod
    def from_array(cls, events: NDArray[np.void], sensor: Sequence[int] = NMNIST) -> Recording:
        """A recording from a structured array, as tonic's data sets return it.

        Args:
            events: the fields x, y, t (microseconds) and p in any order, integers of any size; p is bool, 0 and 1, or -1 and 1.
            sensor: (width, height), or tonic's `sensor_size`.

        Shape:
            - events: (N,); N may be 0.

        Returns:
            The recording, with its own memory.

        Raises:
            TypeError: a field is missing, or is not of integers.
            ValueError: a value is outside its range, or the events are not sorted by time.

        Warns:
            UserWarning: a thousand events or more last less than a millisecond: their times are hardly microseconds.

        Example:
            >>> events = np.array([(3, 4, 10, 1), (5, 6, 12, 0)], dtype=[("x", "i2"), ("y", "i2"), ("t", "i8"), ("p", "i2")])
            >>> Recording.from_array(events, sensor=(34, 34, 2)).address
            array([279, 418])
        """
        fields = getattr(getattr(events, "dtype", None), "names", None) or ()
        if not {*"xytp"} <= {*fields}:
            got = f"the fields {', '.join(fields)}" if fields else type(events).__name__
            raise TypeError(
                f"events must be a structured array with the fields x, y, t and p, got {got}. "
                f"See numpy.rec.fromarrays, or rename fields with numpy.lib.recfunctions.rename_fields."
            )
        made = cls(events["x"], events["y"], events["p"], events["t"], Sensor.of(sensor))
        x, y, time = made.x.astype(np.int32), made.y.astype(np.int32), made.time.astype(np.int64)
        warn_of_unit(time)
        return cls.of_checked(x, y, made.polarity.copy(), time, made.sensor)


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
        array([10], dtype=int32)
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
    columns, rows = recording.x[inside].astype(np.int32) - x, recording.y[inside].astype(np.int32) - y
    return Recording(columns, rows, recording.polarity[inside], recording.time[inside], sensor)


class Defect(NamedTuple):
    """The first event of a recording that cannot be right: its index; what was expected, what came and the cure."""

    event: int
    what: str


def first_defect(x: Integers, y: Integers, time: Integers, sensor: Sensor) -> Defect | None:
    """The first event outside the sensor or before its predecessor; None if there is none."""
    found = []
    pixels, damaged = (
        f"on a sensor of {sensor.width} x {sensor.height} pixels",
        "The data is damaged, or it needs sensor=(width, height) or --sensor.",
    )
    for name, values, most, described, cure in (
        ("x", x, sensor.width - 1, f"{sensor.width - 1} {pixels}", damaged),
        ("y", y, sensor.height - 1, f"{sensor.height - 1} {pixels}", damaged),
        ("time", time, 2**63 - 1, "2**63 - 1 us", "Subtract the start of the recording."),
    ):
        if len(values) and not 0 <= values.min() <= values.max() <= most:
            event = int(((values < 0) | (values > most)).argmax())
            found.append(Defect(event, f"{name} must be from 0 to {described}, got {values[event]}. {cure}"))
    back = time[1:] < time[:-1]
    if back.any():
        event = int(back.argmax()) + 1
        found.append(Defect(event, goes_back(int(time[event - 1]), int(time[event]))))
    return min(found, key=lambda defect: defect.event, default=None)


def goes_back(before: int, after: int) -> str:
    """The message for events that are not sorted by time."""
    return f"time must not go back, got {after} us after {before} us. Sort the events; unwrap a clock that starts again."


def warn_of_unit(time: NDArray[np.int64]) -> None:
    """Warn of the times of a whole recording that are hardly microseconds."""
    if len(time) >= MANY and time[-1] - time[0] < MICROSECONDS:
        notice.warn(
            f"{len(time):,} events last {time[-1] - time[0]} us: their times look like seconds or milliseconds, not us. "
            f"Multiply seconds by 1e6 or milliseconds by 1e3 before they become integers.",
        )


def _column(name: str, values: Any, time: Any) -> None:
    """One of the arrays of a recording: integers, as many as there are times."""
    wanted = f"{name} must be a numpy array of {'bool or ' if name == 'polarity' else ''}integers"
    if not isinstance(values, np.ndarray) or isinstance(values, np.ma.MaskedArray):
        kind = f"{type(values).__module__}.{type(values).__name__}".removeprefix("builtins.")
        raise TypeError(f"{wanted}, got {kind}. Convert it with numpy.asarray; leave out events without a value.")
    if values.dtype.kind not in ("biu" if name == "polarity" else "iu"):
        cure = "Convert it with numpy's astype(numpy.int32)."
        if name == "time":
            cure = "Times are in microseconds: multiply seconds by 1e6 or milliseconds by 1e3, then call astype(numpy.int64)."
        raise TypeError(f"{wanted}, got {values.dtype}. {cure}")
    if values.ndim != 1 or len(values) != len(time):
        wanted = "(N,)" if name == "time" else f"({len(time)},), one value for each time"
        raise ValueError(f"{name} must have shape {wanted}, got {values.shape}. Pass the arrays of one recording.")


def _polarity_defect(polarity: NDArray[Any]) -> Defect | None:
    """The first polarity that is not one of two."""
    low = -1 if len(polarity) and polarity.min() == -1 else 0
    wrong = (polarity != 1) & (polarity != low)
    if not wrong.any():
        return None
    event = int(wrong.argmax())
    what = f"polarity must be 0 or 1 throughout, or -1 or 1, got {polarity[event]}. Use polarity > 0 if this is meant."
    return Defect(event, what)
