"""Time of one event of an online sequence of an estimator: scaling, last-known values, layer, summaries and linear layer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from phased import Stream
from phased.estimator import Events, PhasedClassifier
from phased_lab.bench.cases import Case, Sheet, benchmark, contestants, plain
from phased_lab.bench.cpu import resident
from phased_lab.bench.measure import compare
from phased_lab.bench.stream import layer

VARIABLES, STATICS, STEPS = 37, 4, 70
"""As many as a stay of PhysioNet 2012 has."""
MEASURED = 0.15
"""Share of the variables that are measured at a step."""
MEMORY, MANY = "memory of a sequence", 100_000


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


def trained(events: Events) -> PhasedClassifier:
    """An estimator after an epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of units that never open
        return PhasedClassifier(device="cpu", epochs=1, random_state=0).fit(events, np.arange(len(events)) % 2)


def measure(sequences: int, rounds: int) -> dict[str, Any]:
    """Time an event in the compiled core and in numpy, and the prediction of a whole sequence."""
    events = made_up(sequences)
    model = trained(events)
    plain = copy.deepcopy(model)
    plain.network_.rnn.backend = "eager"
    whole = events[:1]
    pushes = {"push": follow(model, whole), "push, without the compiled core": follow(plain, whole)}
    found = compare(pushes | {"predict_proba of the sequence so far": lambda: model.predict_proba(whole)}, rounds)
    return {"seconds": {name: timing.per(STEPS) if name in pushes else timing for name, timing in found.items()}}


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


def memory() -> dict[str, Any]:
    """Bytes of a further sequence of one model, its Python object included; on Linux only."""
    model = trained(made_up(40))
    made = {"Online": model.online(), "Stream, H110 D41": Stream(layer(110))}
    found, kept = {}, []
    for name, sequence in made.items():
        before = resident("VmRSS")
        kept.append([sequence.copy() for _ in range(MANY)])
        found[name] = (resident("VmRSS") - before) / MANY
    return {"bytes": found}


@benchmark(
    Sheet(
        contestants("an event"),
        {
            "an event of an online sequence, one core": lambda row: row.label,
            "us": lambda row: f"{1e6 * row.median():.1f}",
            "speed-up of `push`": lambda row: row.speed_up_of_first(digits=0),
        },
    ),
    plain(MEMORY),
    quick={"rounds": 3},
    threads=1,
)
def online(rounds: int = 11, sequences: int = 200) -> Iterator[Case]:
    """Random numbers of the size of PhysioNet 2012."""
    yield Case("an event", f"{VARIABLES} variables, {STEPS} events", partial(measure, sequences, rounds))
    yield Case(MEMORY, "each further one", memory)
