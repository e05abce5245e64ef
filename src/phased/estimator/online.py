"""Online: one sequence through a trained model, event by event, with the numbers that the batch gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from phased import check
from phased.estimator.checks import beyond, too_late
from phased.estimator.ragged import EXACT
from phased.estimator.scaling import LARGEST
from phased.estimator.sequence import CompiledSequence, Sequence
from phased.estimator.shared import Shared, by_name

NUMBERS = frozenset((float, int, np.float64, np.int64))
"""Types of a value that need no conversion."""
UNKNOWN = ("clock", "read")
"""Arrays of a state that are not finite before the first event."""


class Online:
    """One sequence that is measured now. `model.online()` makes it.

    Sequences of a model share its weights, and each keeps a few kilobytes. One thread at a time may use a sequence; different
    sequences may be used in different threads.

    Example:
        >>> import numpy as np
        >>> from phased.estimator import Events, PhasedClassifier
        >>> times, values = [np.arange(5.0)] * 20, [np.full((5, 1), label) for label in [0, 1] * 10]
        >>> X = Events.of(times, values, variables=["HR"], unit="h")
        >>> model = PhasedClassifier(units=4, epochs=2, random_state=0).fit(X, [0, 1] * 10)
        >>> patient = model.online()
        >>> for t in range(5):
        ...     risk = patient.push(t, {"HR": 0.0})
        >>> bool(abs(risk - model.predict_proba(X[0])[0, 1]) < 1e-5)
        True
    """

    __slots__ = ("_now", "_sequence", "_shared", "_start", "_steps", "_time")

    def __init__(self, shared: Shared, static: NDArray[np.float32]) -> None:
        self._shared = shared
        self._sequence = (Sequence if shared.compiled is None else CompiledSequence)(shared, static)
        self._start = self._time = math.nan  # of the first step and of the last
        self._now = -math.inf  # of the last step since the first, in median gaps
        self._steps = 0

    @property
    def time(self) -> float | None:
        """The time of the last event, or None before the first.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20)).online().time is None
            True
        """
        return self._time if self._steps else None

    def push(self, time: float, values: Mapping[str, Any]) -> Any:
        """Take what was measured at one time.

        Args:
            time: In the unit of the model, not before the last event.
            values: Variables to numbers or booleans, and text variables to text. May be empty. Numbers that meant "not known" in
                the table of the training are left out.

        Returns:
            Two classes: the probability of the second of `classes_`, a float. More classes: all probabilities, (classes,).
            A regression: the number, a float.

        Raises:
            TypeError: A time or value is no number.
            ValueError: A variable is unknown; a number is not finite, or beyond 1e300; the time is before the last, or too far
                from the first; or the answer is not finite. The sequence stays as it was.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> sequence = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20)).online()
            >>> isinstance(sequence.push(0.5, {"x0": 3.0}), float)
            True
        """
        shared = self._shared
        if type(time) is not float:
            time = shared.time(time)
        if not (self._time <= time <= EXACT) and (self._steps or not -EXACT <= time <= EXACT):
            raise shared.wrong_time(time, self.time)
        columns, sequence = shared.columns, self._sequence
        found = []
        for name, value in (values if type(values) is dict else by_name("values", values)).items():
            column = columns.get(name)
            if column is None and name in shared.texts:  # 1 for the level, 0 for the one before
                level, numbers = shared.level(name, value), shared.texts[name]
                found += [(of, float(each == level)) for each, of in numbers.items() if each == level or sequence.x[of]]
                continue
            if column is None:
                raise ValueError(shared.unknown("variables", name, columns))
            if type(value) not in NUMBERS:
                value = shared.number(name, value)
            number, (center, factor, low, high), marks = column
            if marks and value in marks:
                continue
            if not -LARGEST <= value <= LARGEST:
                raise beyond(name, value, f"at time {time}")
            found.append((number, ((low if value < low else high if value > high else value) - center) * factor))
        start, now, gap = time, 0.0, 0.0
        if self._steps:
            start = self._start
            now = (time - start) / shared.gap
            gap = now - self._now
            if now > shared.reach:
                raise too_late(now, shared.scaling, "for this event")
        before = sequence.block.tobytes()
        try:
            answer = shared.answer(sequence.take(now, gap, self._now, self._steps + 1, found))
        except BaseException:  # an answer that is not finite, or Ctrl-C
            sequence.block[:] = np.frombuffer(before, np.uint8)
            raise
        self._start, self._time, self._now = start, time, now
        self._steps += 1
        return answer

    def dump(self) -> bytes:
        """The state as bytes, for a file or a database; `model.online(state=...)` continues from there.

        Returns:
            A safetensors file of a few kilobytes. It has no weights, and is for this model only.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20))
            >>> first = model.online()
            >>> before = first.push(0.5, {"x0": 3.0})
            >>> second = model.online(state=first.dump())
            >>> first.push(2.0, {"x0": 4.0}) == second.push(2.0, {"x0": 4.0})
            True
        """
        clock = np.array([self._start, self._time, self._now, self._steps])
        model = np.frombuffer(self._shared.digest, np.uint8)
        return safetensors.numpy.save({"model": model, "clock": clock, **self._sequence.arrays()})

    def _load(self, data: bytes) -> None:
        """Continue from what `dump` returned."""
        try:
            found = safetensors.numpy.load(data)
        except (SafetensorError, TypeError) as error:
            raise ValueError(f"state must be what dump() returned, got {check.kind(data)} that is cut off or damaged.") from error
        expected = safetensors.numpy.load(self.dump())
        if found.keys() != expected.keys() or bytes(found["model"]) != self._shared.digest:
            raise ValueError("state must be of this model, got one of another. Load the model that it was made with.")
        for name, value in expected.items():
            if found[name].dtype != value.dtype or found[name].shape != value.shape:
                raise ValueError(f"state must have {name!r} of shape {value.shape}, got {found[name].shape}. It is damaged.")
        start, time, _, steps = found["clock"].tolist()
        begun = [value for name, value in found.items() if value.dtype.kind == "f" and (steps or name not in UNKNOWN)]
        if not (0 <= steps < EXACT and (not steps or start <= time) and all(np.isfinite(value).all() for value in begun)):
            raise ValueError("state must have finite numbers, got NaN, infinity or times out of order. It is damaged.")
        self._sequence.restore(found)
        if steps:
            self._start, self._time, self._now = start, time, (time - start) / self._shared.gap
        self._steps = int(steps)
