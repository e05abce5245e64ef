"""Test material for estimators: small made-up patients, whose class shows in their heart rate and in its slope."""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from phased.estimator import Events, PhasedClassifier

QUICK = {"units": 6, "epochs": 2, "batch_size": 16, "convolutions": False, "random_state": 0}
VARIABLES = ("HR", "GCS", "Temp")


def patients(n: int = 60, seed: int = 0, longest: int = 12, unit: str = "h", empty: bool = False) -> tuple[Events, np.ndarray]:
    """Sequences of 1 to `longest` steps over about two days, and a class for each; `empty` gives some of them no step."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    times, values = [], []
    for sick in y:
        steps = int(random.integers(0 if empty else 1, longest + 1))
        time = np.sort(random.uniform(0, 48, steps))
        value = np.stack([random.normal(80 + 25 * sick, 8, steps), random.integers(3, 16, steps), random.normal(37, 1, steps)], 1)
        value[random.random(value.shape) < 0.4] = np.nan
        times.append(time)
        values.append(value)
    age = random.uniform(20, 90, n)
    age[random.random(n) < 0.2] = np.nan
    static = np.stack([age, random.integers(1, 5, n)], 1)
    ids = [f"p{number:03}" for number in range(n)]
    return Events.of(times, values, ids=ids, variables=VARIABLES, static=static, statics=["Age", "ICU"], unit=unit), y


def measured(events: Events, sequence: int) -> list[tuple[float, dict[str, float]]]:
    """The events of one sequence, as `Online.push` takes them."""
    one = events[sequence]
    return [
        (float(time), {name: float(value) for name, value in zip(one.variables, row, strict=True) if np.isfinite(value)})
        for time, row in zip(one.time, one.dense(), strict=True)
    ]


def known(events: Events, sequence: int) -> dict[str, float]:
    """The static variables of one sequence, without those that are not known."""
    row = events.static[sequence]
    return {name: float(value) for name, value in zip(events.statics, row, strict=True) if np.isfinite(value)}


def follow(model: Any, events: Events, sequence: int) -> list[Any]:
    """The answers after each event of a sequence."""
    online = model.online(static=known(events, sequence))
    return [online.push(time, values) for time, values in measured(events, sequence)]


X, Y = patients()


@cache
def quick(kind: type = PhasedClassifier, y: tuple[Any, ...] | None = None, **options: Any) -> Any:
    """A model of X, and of Y or other targets, that tests share: they do not change it."""
    return kind(**{**QUICK, **options}).fit(X, Y if y is None else np.array(y))


def write(path: Path, header: list[str], rows: Iterable[Iterable[Any]]) -> Path:
    """A file of comma-separated values."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def long_table(events: Events, missing: Any = "") -> Iterable[list[Any]]:
    """A row per measurement, static variables at the first time, and a mark where nothing is known."""
    for one in events:
        statics = [(one.time[0], name, value) for name, value in zip(one.statics, one.static[0], strict=True)]
        steps = zip(one.time, one.dense(), strict=True)
        values = [(time, name, value) for time, row in steps for name, value in zip(one.variables, row, strict=True)]
        yield from ([one.ids[0], time, name, missing if np.isnan(value) else value] for time, name, value in statics + values)


def write_tables(folder: Path) -> None:
    """The tables of 30 patients, t.csv, and of their classes, l.csv."""
    few, classes = patients(30)
    write(folder / "t.csv", ["id", "time", "variable", "value"], long_table(few))
    write(folder / "l.csv", ["id", "target"], zip(few.ids, classes, strict=True))
