"""Online: one sequence through a trained model, event by event, with the numbers that the batch gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phased.estimator.checks import beyond, too_late
from phased.estimator.online_model import Now, OnlineModel, by_name
from phased.estimator.ragged import EXACT
from phased.estimator.scaling import LARGEST
from phased.stream import MARK, OneSequence

NUMBERS = frozenset((float, int, np.float64, np.int64))
"""Types of a value that need no conversion."""


class Online(OneSequence):
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

    _model: OnlineModel

    def __init__(self, model: OnlineModel, static: Mapping[str, Any] | None = None) -> None:
        self._model = model
        self._now = model.start(model.static_inputs(static))

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
        return self._now.time if self._now.steps else None

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
        model, before = self._model, self._now
        if type(time) is not float:
            time = model.time(time)
        if not (before.time <= time <= EXACT) and (before.steps or not -EXACT <= time <= EXACT):
            raise model.wrong_time(time, self.time)
        columns = model.columns
        found = []
        for name, value in (values if type(values) is dict else by_name("values", values)).items():
            column = columns.get(name)
            if column is None and name in model.texts:  # 1 for the level, 0 for the one before
                level, numbers = model.level(name, value), model.texts[name]
                found += [(of, float(each == level)) for each, of in numbers.items() if each == level or model.inputs(before)[of]]
                continue
            if column is None:
                raise ValueError(model.unknown("variables", name, columns))
            if type(value) not in NUMBERS:
                value = model.number(name, value)
            number, (center, factor, low, high), marks = column
            if marks and value in marks:
                continue
            if not -LARGEST <= value <= LARGEST:
                raise beyond(name, value, f"at time {time}")
            found.append((number, ((low if value < low else high if value > high else value) - center) * factor))
        start, now, gap = time, 0.0, 0.0
        if before.steps:
            start = before.start
            now = (time - start) / model.gap
            gap = now - before.layer.time
            if now > model.reach:
                raise too_late(now, model.scaling, "for this event")
        memory, layer, steps = before.memory.copy(), before.layer.copy(), before.steps + 1
        answer = model.answer(model.take(memory, layer, now, gap, steps, found))
        self._now = Now(memory, layer, start, time, steps)
        return answer

    def reset(self) -> None:
        """Forget all events; the next one may have any time. What is known of static variables stays.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> sequence = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20)).online()
            >>> first = sequence.push(0.5, {"x0": 3.0})
            >>> sequence.reset()
            >>> sequence.push(0.5, {"x0": 3.0}) == first
            True
        """
        self._now = self._model.start(self._model.inputs(self._now)[self._model.sizes.features :])

    def dump(self) -> bytes:
        """The state as bytes, for a file or a database; `model.online(state=...)` continues from there.

        Returns:
            A few kilobytes, with a digest of them. It has no weights, and is for this model only.

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
        return super().dump()

    def restore(self, state: bytes) -> None:
        """Continue from what `dump` returned. An error leaves the sequence as it was.

        Args:
            state: What `dump` returned, of a sequence of the same model. Dumps of the earlier form, without a digest, too.

        Raises:
            ValueError: The state is of another model or another version of phased, or it is cut off or damaged.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> sequence = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20)).online()
            >>> before = sequence.dump()
            >>> answer = sequence.push(0.5, {"x0": 3.0})
            >>> sequence.restore(before)
            >>> sequence.time is None
            True
        """
        if state[: len(MARK)] == MARK:
            super().restore(state)
        else:
            self._now = self._model.unpack_safetensors(state)
