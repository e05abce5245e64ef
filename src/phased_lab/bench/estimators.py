"""The estimators with three cells: tasks from other papers, made up from random numbers, with all defaults."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean, median
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from phased.estimator import PhasedClassifier, PhasedRegressor
from phased_lab.bench.cases import Case, Cases, Sheet, benchmark, texts
from phased_lab.bench.measure import Timing

CELLS = {"phased LSTM": "phased_lstm", "nn.LSTM": "lstm", "nn.GRU": "gru"}
Seeds = Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N - 1.")]
"""The option of a benchmark."""
SHORTEST, LONGEST = 2, 31
"""Bits of a stream, as in the code of Lechner and Hasani (2020)."""
LAG, STEP, WARM_UP = 17.0, 0.1, 300.0
"""Delay of the Mackey-Glass equation, step of the solution, time before the first sample."""
GAP, AHEAD = 2.0, 6.0
"""Mean time between samples, and the time to the predicted number, as usual with this series."""

Numbers = NDArray[np.float64]
Sequences = list[tuple[NDArray[Any], NDArray[Any]]]


class Data(NamedTuple):
    """Sequences of (times, values) with targets."""

    x: Sequences
    y: Any


class Task(NamedTuple):
    """A task: data from a number of sequences and a seed, the kind of estimator, and sizes of training and test."""

    make: Callable[[int, int], Data]
    kind: type[PhasedClassifier] | type[PhasedRegressor]
    sizes: tuple[int, int]


def fitted(
    cell: str, x: Any, y: Any, kind: type[PhasedClassifier] | type[PhasedRegressor] = PhasedClassifier, **settings: Any
) -> Any:
    """An estimator of a cell of CELLS, trained on the CPU. Warnings, such as of units that never open, are of no use here."""
    model = kind(cell=CELLS[cell], device="cpu", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(x, y)


def fitted_in_turns(x: Any, y: Any, states: Iterable[int], **settings: Any) -> dict[str, list[Any]]:
    """Classifiers of every cell, one for each random state. Cells take turns, as the speed of the machine changes."""
    models: dict[str, list[Any]] = {cell: [] for cell in CELLS}
    for state in states:
        for cell, own in models.items():
            own.append(fitted(cell, x, y, random_state=state, **settings))
    return models


def epochs_of(models: Mapping[str, Sequence[Any]], first: int = 1) -> dict[str, Timing]:
    """Seconds of an epoch by cell, from the epoch with the number `first` on."""
    curves = {cell: [epoch for model in own for epoch in model.report_.curve[first - 1 :]] for cell, own in models.items()}
    return {cell: Timing.of([epoch.seconds for epoch in curve]) for cell, curve in curves.items()}


def bits(count: int, seed: int, changes: bool) -> Data:
    """Make streams of random bits, one per unit of time. The target is the parity of the sum.

    With `changes` only bits that differ from the bit before them, and the last one, are samples: a run of equal bits is known by
    its duration alone.
    """
    random = np.random.default_rng([0x0A, seed])
    x, y = [], np.zeros(count, np.int64)
    for row, size in enumerate(random.integers(SHORTEST, LONGEST, count, endpoint=True)):
        stream = random.integers(0, 2, size)
        kept = np.ones(size, bool)
        if changes:
            kept[1:-1] = stream[1:-1] != stream[:-2]
        x.append((np.flatnonzero(kept) + 1.0, stream[kept, None].astype(np.float64)))
        y[row] = stream.sum() % 2
    return Data(x, y)


def mackey_glass(count: int, seed: int, events: int = 1000) -> Data:
    """Make the chaotic series of Mackey and Glass at random times. The target of a sample is the series some time later."""
    random = np.random.default_rng([0x36, seed])
    times = np.cumsum(random.exponential(GAP, (count, events)), 1)
    series = solution(count, float(times.max()) + AHEAD, random)
    grid = STEP * np.arange(len(series))
    x = [(own, np.interp(own, grid, series[:, row])[:, None]) for row, own in enumerate(times)]
    return Data(x, [np.interp(own + AHEAD, grid, series[:, row]) for row, own in enumerate(times)])


def solution(count: int, duration: float, random: np.random.Generator) -> Numbers:
    """x' = 0.2 x(t - lag) / (1 + x(t - lag)^10) - 0.1 x, by Euler's method, from random constant pasts, (steps, count)."""
    lag, skipped = round(LAG / STEP), round(WARM_UP / STEP)
    x = np.empty((lag + skipped + round(duration / STEP) + 2, count))
    x[:lag] = random.uniform(0.4, 1.3, count)
    for step in range(lag, len(x)):
        past = x[step - lag]
        x[step] = x[step - 1] + STEP * (0.2 * past / (1 + past**10) - 0.1 * x[step - 1])
    return x[lag + skipped :]


EVERY_BIT, EVERY_CHANGE = "parity of bits, a sample for every bit", "parity of bits, a sample for every change"
SERIES = "Mackey-Glass, a number for every sample"
TASKS = {
    EVERY_BIT: Task(partial(bits, changes=False), PhasedClassifier, (20_000, 5_000)),
    EVERY_CHANGE: Task(partial(bits, changes=True), PhasedClassifier, (20_000, 5_000)),
    SERIES: Task(mackey_glass, PhasedRegressor, (400, 100)),
}
PUBLISHED = {EVERY_BIT: 0.5099, EVERY_CHANGE: 0.8029}


def evaluate(name: str, cell: str, seed: int, part: int, epochs: int) -> dict[str, Any]:
    """Train an estimator with all defaults except the cell, and test it on other sequences."""
    task = TASKS[name]
    sizes = [size // part for size in task.sizes]
    train, test = task.make(sizes[0], 2 * seed), task.make(sizes[1], 2 * seed + 1)
    begin = time.perf_counter()
    model = fitted(cell, train.x, train.y, task.kind, epochs=epochs, random_state=seed)
    answer, report = model.predict(test.x), model.report_
    return {
        "cell": cell,
        "seed": seed,
        "score": score(task, answer, test.y),
        "updates": report.updates,
        "epochs": len(report.curve),
        "kept": report.best,
        "seconds": {cell: time.perf_counter() - begin},
    }


def latest(part: int) -> dict[str, Any]:
    """The score of who always predicts the latest value of the series."""
    test = mackey_glass(TASKS[SERIES].sizes[1] // part, seed=1)
    return {"score": score(TASKS[SERIES], np.concatenate([x[:, 0] for _, x in test.x]), test.y)}


def score(task: Task, answer: Any, y: Any) -> float:
    """Return the accuracy, or the root mean squared error divided by the standard deviation of the targets."""
    if task.kind is PhasedClassifier:
        return float(np.mean(answer == y))
    wanted = np.concatenate(y)
    return float(np.sqrt(np.mean((answer - wanted) ** 2)) / wanted.std())


def by_task(cases: Cases) -> Iterator[tuple[str, ...]]:
    """A row for each task: of every cell the mean score over seeds and the range, and the scores to compare with."""
    for task in dict.fromkeys(case["part"] for case in cases):
        own = [case for case in cases if case["part"] == task]
        of_cells = [[case["score"] for case in own if case.get("cell") == cell] for cell in CELLS]
        texts = (f"{mean(found):.3f} ({min(found):.3f} to {max(found):.3f})" if found else "" for found in of_cells)
        yield task, *texts, ", ".join(f"{case['case']}: {case['score']:.3f}" for case in own if "cell" not in case)


def by_cell(cases: Cases) -> Iterator[tuple[str, ...]]:
    """A row for each cell on each task: updates and seconds per epoch."""
    for task in dict.fromkeys(case["part"] for case in cases):
        for cell in CELLS:
            fits = [case for case in cases if (case["part"], case.get("cell")) == (task, cell)]
            pace = median(fit["seconds"][cell] / fit["epochs"] for fit in fits)
            yield task, cell, f"{100 * mean(fit['updates'] for fit in fits):.0f} %", f"{pace:.2f}"


@benchmark(
    Sheet(by_task, texts("task", *CELLS, "to compare with")),
    Sheet(by_cell, texts("task", "cell", "updates", "s per epoch")),
    quick={"seeds": 1, "epochs": 4, "part": 10},
    threads=1,
)
def estimators(seeds: Seeds = 5, epochs: int = PhasedClassifier.epochs, part: int = 1) -> Iterator[Case]:
    """Every cell on every task with every seed, with the defaults of the estimators. `part` divides the numbers of sequences.

    Cells take turns, so that changes of the machine's speed affect every cell. Published scores are added.
    """
    for task, value in PUBLISHED.items():
        yield Case(task, "Phased LSTM, as published (Lechner and Hasani 2020)", partial(dict, score=value))
    yield Case(SERIES, "the latest value", partial(latest, part))
    for seed in range(seeds):
        for task in TASKS:
            for cell in CELLS:
                yield Case(task, f"{cell}, seed {seed}", partial(evaluate, task, cell, seed, part, epochs))
