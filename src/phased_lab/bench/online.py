"""Time of one event of an online sequence of an estimator: scaling, last-known values, layer, summaries and linear layer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from phased.estimator import Events, PhasedClassifier
from phased_lab.bench.measure import Timing, compare

VARIABLES, STATICS, STEPS = 37, 4, 70
"""As many as a stay of PhysioNet 2012 has."""
MEASURED = 0.15
"""Share of the variables that are measured at a step."""
SEQUENCES = 200


def made_up(sequences: int) -> Events:
    """Sequences of random numbers."""
    random = np.random.default_rng(0)
    times = [np.sort(random.uniform(0, 48, STEPS)) for _ in range(sequences)]
    shape = STEPS, VARIABLES
    values = [np.where(random.random(shape) < MEASURED, random.normal(size=shape), np.nan) for _ in times]
    names = [f"v{number}" for number in range(VARIABLES)]
    statics = [f"s{number}" for number in range(STATICS)]
    static = random.normal(size=(sequences, STATICS))
    return Events.of(times, values, variables=names, static=static, statics=statics, unit="h")


def measure(rounds: int) -> dict[str, Timing]:
    """Seconds of an event, by the compiled core and by numpy; and of the answer for a whole sequence instead."""
    events = made_up(SEQUENCES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is trained for one epoch
        model = PhasedClassifier(epochs=1, device="cpu", random_state=0).fit(events, np.arange(SEQUENCES) % 2)
    plain = copy.deepcopy(model)
    plain.network_.rnn.backend = "plain"
    whole = events[:1]
    found = compare(
        {
            "push": follow(model, whole),
            "push, without the compiled core": follow(plain, whole),
            "predict_proba of the sequence so far": lambda: model.predict_proba(whole),
        },
        rounds,
    )
    return {name: timing if name.startswith("predict") else timing.per(STEPS) for name, timing in found.items()}


def follow(model: PhasedClassifier, events: Events) -> Callable[[], Any]:
    """A function that pushes all events of the first sequence."""
    rows = [
        (float(time), {name: float(value) for name, value in zip(events.variables, row, strict=True) if value == value})
        for time, row in zip(events.time, events.dense(), strict=True)
    ]

    def pushed() -> Any:
        sequence = model.online()
        return [sequence.push(time, values) for time, values in rows][-1]

    return pushed
