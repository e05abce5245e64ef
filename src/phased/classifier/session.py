"""Session: events of one stream through a classifier, as they arrive."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import index
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased import check, notice
from phased.data.recording import MICROSECONDS, Recording, Sensor
from phased.stream import OneSequence, Stream, identity

CHUNK = 8192
"""Events in one call of the stream: their outputs fit in a processor's cache, however long the recording is."""


Probabilities = NDArray[np.float64]
Linear = tuple[NDArray[np.float32], NDArray[np.float32]]  # weight and bias


class Moment(NamedTuple):
    """The probability of each class after all events before a time."""

    time: float  # ms
    probabilities: Probabilities


class Now(NamedTuple):
    """The state of a session. Nothing in it changes later.

    Args:
        stream: the recurrent layer.
        last: the output after the last event, (H,).
        total: the sum of the outputs after all events, (H,), or None if it is not read.
        events: their number.
    """

    stream: Stream
    last: NDArray[np.float32]
    total: NDArray[np.float64] | None
    events: int = 0

    def copy(self) -> Now:
        """The same."""
        return self

    def after(self, stream: Stream, outputs: NDArray[np.float32]) -> Now:
        """The state after further events, with their outputs (N, H), of which nothing is kept."""
        if not len(outputs):
            return self
        total = None if self.total is None else self.total + outputs.sum(0, dtype=np.float64)
        return Now(stream, outputs[-1].copy(), total, self.events + len(outputs))


class Camera:
    """The layers of a classifier, which sessions share.

    Args:
        stream: the recurrent layer with a table of its inputs, before the first event.
        layers: weight and bias of each of the last layers, which are linear; there are ReLUs between two.
        mean: whether they read the mean output of the recurrent layer, beside the last one.
        sensor: the size of the camera.
        longest: milliseconds up to which the classifier was tested; None if that is not known.
    """

    def __init__(self, stream: Stream, layers: Sequence[Linear], mean: bool, sensor: Sensor, longest: float | None) -> None:
        self.stream, self.layers, self.mean, self.sensor, self.longest = stream, layers, mean, sensor, longest

    def probabilities(self, now: Now) -> Probabilities:
        """The probability of each class, (classes,)."""
        read = now.last
        if now.total is not None:
            read = np.concatenate([read, (now.total / max(1, now.events)).astype(np.float32)])
        for weight, bias in self.layers[:-1]:
            read = np.maximum(weight @ read + bias, 0)
        weight, bias = self.layers[-1]
        logits = (weight @ read + bias).astype(np.float64)
        logits -= logits.max()
        np.exp(logits, out=logits)
        logits /= logits.sum()
        return logits

    @cached_property
    def identity(self) -> bytes:
        """Identifies the weights of all layers."""
        return identity((self.stream._model.identity, self.mean, self.sensor), map(torch.from_numpy, chain(*self.layers)))

    def start(self) -> Now:
        """The state before the first event."""
        units = self.stream.hidden_size
        return Now(self.stream.copy(), np.zeros(units, np.float32), np.zeros(units) if self.mean else None)

    def pack(self, now: Now) -> bytes:
        """A state as bytes: the number of events, the sum of outputs if it is read, and the state of the layer."""
        total = b"" if now.total is None else now.total.tobytes()
        return struct.pack("<q", now.events) + total + self.stream._model.pack(now.stream._now)

    def unpack(self, data: bytes) -> Now:
        """The state from what `pack` returned."""
        stream, model, end = self.stream.copy(), self.stream._model, 8 + 8 * self.mean * self.stream.hidden_size
        stream._now = model.unpack(data[end:])
        total = np.frombuffer(data[8:end]) if self.mean else None
        return Now(stream, model.values(stream._now)[0][-1].numpy(), total, *struct.unpack_from("<q", data))


class Session(OneSequence):
    """Events of one stream through a classifier, one by one or in parts of any length; the state stays between calls.

    `Classifier.session()` makes one. Sessions of a classifier share its weights and are independent of each other.

    Example:
        >>> from phased.classifier import Classifier
        >>> session = Classifier.load().session()
        >>> for x, y, polarity, t in [(16, 7, 1, 2_000), (17, 7, 1, 2_450), (16, 8, 0, 3_100)]:
        ...     probabilities = session.push(x, y, polarity, t)
        >>> probabilities.shape
        (10,)
    """

    _model: Camera

    def __init__(self, camera: Camera) -> None:
        self._model = camera
        self._now = camera.start()

    @property
    def time(self) -> float | None:
        """The time of the last event in microseconds, or None before the first.

        Example:
            >>> from phased.classifier import Classifier
            >>> session = Classifier.load().session()
            >>> probabilities = session.push(16, 7, 1, 2_000)
            >>> session.time
            2000.0
        """
        last = self._now.stream.time
        return None if last is None else last * MICROSECONDS

    @property
    def probabilities(self) -> Probabilities:
        """The probability of each class after the events so far, (classes,)."""
        return self._model.probabilities(self._now)

    def push(self, x: int, y: int, polarity: int, t: float) -> Probabilities:
        """Take one event.

        Args:
            x: Column of its pixel, from the left.
            y: Row of its pixel, from the top.
            polarity: Its polarity bit, 0 or 1.
            t: Its time in microseconds since the beginning of the recording, not before the last event.

        Shape:
            - returned: (classes,).

        Returns:
            The probability of each class.

        Raises:
            TypeError: x or y is no integer.
            ValueError: The pixel is outside the sensor, polarity is no bit, or t goes backwards. The state stays as it was.

        Example:
            >>> from phased.classifier import Classifier
            >>> session = Classifier.load().session()
            >>> session.push(16, 7, 1, 2_000).sum().round(6)
            np.float64(1.0)
        """
        width, height = self._model.sensor
        if not (0 <= x < width and 0 <= y < height and polarity in (0, 1)):
            raise ValueError(
                f"x must be in [0, {width}), y in [0, {height}) and polarity 0 or 1, got {x}, {y} and {polarity}. "
                f"Leave out events from outside a window of this size."
            )
        time, now = check.as_float(t) / MICROSECONDS, self._now
        stream = now.stream.copy()
        try:
            h = stream.push((index(y) * width + index(x)) * 2 + int(polarity), time)
        except ValueError:
            self._check_order(time)
            raise
        self._now = Now(stream, h, None if now.total is None else now.total + h, now.events + 1)
        self._warn_beyond(now, time)
        return self.probabilities

    def run(self, recording: Recording) -> Probabilities:
        """Take a recording, or the next part of one: all of its events, or none after an error or Ctrl-C.

        Args:
            recording: The events; none may be before the last event of this session.

        Shape:
            - returned: (classes,).

        Returns:
            The probability of each class after its last event.

        Raises:
            ValueError: The recording is of another sensor, or begins before the last event. The state stays as it was.

        Example:
            >>> import numpy as np
            >>> from phased.classifier import Classifier
            >>> from phased.data import Recording
            >>> part = Recording(np.array([16, 17]), np.array([7, 7]), np.array([True, True]), np.array([2_000, 2_450]))
            >>> Classifier.load().session().run(part).shape
            (10,)
        """
        self._check(recording)
        after = self.copy()
        for _ in after._moments(recording, math.inf):
            pass
        self._now = after._now
        return self.probabilities

    def follow(self, recording: Recording, every: float = 10.0) -> Iterator[Moment]:
        """Take a recording, and give the probabilities at regular times.

        Args:
            recording: The events; none may be before the last event of this session.
            every: Milliseconds between two moments. The last moment is that of the last event.

        Returns:
            An iterator of moments: a time in ms, and the probabilities of shape (classes,).

        Raises:
            ValueError: The recording is of another sensor, begins before the last event, or every is not positive.

        Example:
            >>> import numpy as np
            >>> from phased.classifier import Classifier
            >>> from phased.data import Recording
            >>> part = Recording(np.array([16, 17]), np.array([7, 7]), np.array([True, True]), np.array([2_000, 32_450]))
            >>> [moment.time for moment in Classifier.load().session().follow(part)]
            [10.0, 20.0, 30.0, 32.45]
        """
        check.number("every", every, low=0.0, low_open=True)
        self._check(recording)
        return self._moments(recording, every)

    def _moments(self, recording: Recording, every: float) -> Iterator[Moment]:
        """The moments of `follow`; events are taken as it goes on."""
        tick = 0
        for begin in range(0, len(recording), CHUNK):
            before, stream = self._now, self._now.stream.copy()
            events = recording.part(begin, begin + CHUNK)
            time, rest = events.time / MICROSECONDS, recording.time[begin + CHUNK : begin + CHUNK + 1]
            outputs = stream.run(events.address, time)
            self._warn_beyond(before, time[-1])
            self._now = before.after(stream, outputs)
            until = rest[0] / MICROSECONDS if len(rest) else time[-1]
            tick = tick or int(time[0] // every) + 1
            while tick * every < until:
                taken = before.after(stream, outputs[: np.searchsorted(time, tick * every)])
                yield Moment(tick * every, self._model.probabilities(taken))
                tick += 1
        if len(recording):
            yield Moment(int(recording.time[-1]) / MICROSECONDS, self.probabilities)

    def _check(self, recording: Recording) -> None:
        """A recording of the model's sensor that does not begin before the last event."""
        if recording.sensor != self._model.sensor:
            (width, height), other = self._model.sensor, recording.sensor
            raise ValueError(
                f"the recording must be of {width} x {height} pixels, the model's sensor, got {other.width} x {other.height}. "
                f"Take a window of that size (crop, --crop X,Y), or train a model for this sensor."
            )
        if len(recording):
            self._check_order(int(recording.time[0]) / MICROSECONDS, "event 0: ")

    def _check_order(self, time: float, what: str = "") -> None:
        """A time in ms that is not before the last event."""
        last = self._now.stream.time
        if last is not None and time < last:
            raise ValueError(
                f"{what}time must not go backwards, got {time * MICROSECONDS:.15g} us after {last * MICROSECONDS:.15g} us, the "
                f"last event of the session. Sort the events, or begin another session for another recording."
            )

    def _warn_beyond(self, before: Now, time: float) -> None:
        """Warn of the first time in ms beyond those tested."""
        longest = self._model.longest
        if longest is not None and time > longest >= (before.stream.time or 0.0):
            notice.warn(
                f"These events go beyond {longest:g} ms, the longest recordings that this model was tested on. It goes on "
                f"classifying; how well was not measured. If the times do not begin near 0, count them from the first event."
            )
