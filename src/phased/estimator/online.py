"""Online: one sequence through a trained model, event by event, with the numbers that the batch gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phased.estimator.checks import beyond
from phased.estimator.online_model import OnlineModel, by_name
from phased.estimator.scaling import LARGEST
from phased.stream import OneSequence

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
        _, time, steps = self._model.part(self._now, "clock").tolist()
        return time if steps else None

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
        model, now = self._model, self._now
        if type(time) is not float:
            time = model.time(time)
        columns = model.columns
        found = []
        for name, value in (values if type(values) is dict else by_name("values", values)).items():
            column = columns.get(name)
            if column is None:
                if name not in model.texts:
                    raise ValueError(model.unknown("variables", name, columns))
                level, numbers = model.level(name, value), model.texts[name]  # 1 for the level, 0 for the one before
                found += [(of, float(each == level)) for each, of in numbers.items() if each == level or model.part(now, "x")[of]]
                continue
            if type(value) is not float and type(value) not in NUMBERS:
                value = model.number(name, value)
            number, center, factor, low, high, slope, marks = column
            if marks and value in marks:
                continue
            if slope:
                value -= slope * time
            if not low <= value <= high:
                if not -LARGEST <= value <= LARGEST:
                    raise beyond(name, value, f"at time {time}")
                value = low if value < low else high if value > high else value
            found.append((number, (value - center) * factor))
        core = model.core
        outputs = model.take(now, time, found) if core is None else core.take(now.memory, now.layer, time, found)
        if outputs is None:
            raise model.wrong_time(now, time)
        return model.answer(outputs)

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
        self._now = self._model.start(self._model.part(self._now, "x")[self._model.inputs.width :])
