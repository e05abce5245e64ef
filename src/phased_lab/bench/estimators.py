"""Tasks from other papers, made up from random numbers, for the estimators with all defaults: bits, and a chaotic series."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import phased
from phased.estimator import PhasedClassifier, PhasedRegressor
from phased_lab.bench.kept import kept

CELLS = {"phased LSTM": "phased_lstm", "nn.LSTM": "lstm", "nn.GRU": "gru"}
SHORTEST, LONGEST = 2, 31
"""Bits of a stream, as in the code of Lechner and Hasani (2020)."""
LAG, STEP, WARM_UP = 17.0, 0.1, 300.0
"""Of the Mackey-Glass equation: its delay, the step of its solution, and the time before its first sample."""
GAP, AHEAD = 2.0, 6.0
"""Mean time between samples, and how far ahead a number is predicted: the distance that is usual with this series."""

Numbers = NDArray[np.float64]
Sequences = list[tuple[NDArray[Any], NDArray[Any]]]


class Data(NamedTuple):
    """Sequences of (times, values), and their targets."""

    x: Sequences
    y: Any


class Task(NamedTuple):
    """A task: data from a number of sequences and a seed, which score it has, and sizes of training and test."""

    make: Callable[[int, int], Data]
    score: str
    sizes: tuple[int, int]


def bits(count: int, seed: int, changes: bool) -> Data:
    """Streams of random bits, one per unit of time; the target is the parity of the sum.

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
    """The chaotic series of Mackey and Glass at random times; the target of each sample is the series some time later."""
    random = np.random.default_rng([0x36, seed])
    times = np.cumsum(random.exponential(GAP, (count, events)), 1)
    series = solution(count, float(times.max()) + AHEAD, random)
    grid = STEP * np.arange(len(series))
    x = [(own, np.interp(own, grid, series[:, row])[:, None]) for row, own in enumerate(times)]
    return Data(x, [np.interp(own + AHEAD, grid, series[:, row]) for row, own in enumerate(times)])


def solution(count: int, duration: float, random: np.random.Generator) -> Numbers:
    """x' = 0.2 x(t - lag) / (1 + x(t - lag)^10) - 0.1 x, by Euler's method, from random constant pasts; (steps, count)."""
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
    EVERY_BIT: Task(partial(bits, changes=False), "accuracy", (20_000, 5_000)),
    EVERY_CHANGE: Task(partial(bits, changes=True), "accuracy", (20_000, 5_000)),
    SERIES: Task(mackey_glass, "nrmse", (400, 100)),
}


def evaluate(task: Task, cell: str, seed: int, sizes: tuple[int, int], epochs: int) -> dict[str, Any]:
    """Train an estimator with all defaults except the cell, and test it on other sequences."""
    train, test = task.make(sizes[0], 2 * seed), task.make(sizes[1], 2 * seed + 1)
    kind = PhasedClassifier if task.score == "accuracy" else PhasedRegressor
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # for each of many fits
        model = kind(cell=CELLS[cell], epochs=epochs, device="cpu", random_state=seed).fit(train.x, train.y)
        answer = model.predict(test.x)
    found = {"seed": seed, "score": score(task, answer, test.y), "updates": model.report_.updates}
    seconds = time.perf_counter() - begin
    return found | {"epochs": len(model.report_.curve), "kept": model.report_.best, "seconds": seconds}


def score(task: Task, answer: Any, y: Any) -> float:
    """The share of right answers; or the root of the mean squared error, divided by the standard deviation of the targets."""
    if task.score == "accuracy":
        return float(np.mean(answer == y))
    wanted = np.concatenate(y)
    return float(np.sqrt(np.mean((answer - wanted) ** 2)) / wanted.std())


class Fit(NamedTuple):
    """One of the fits."""

    task: str
    cell: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task}, {self.cell}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """What is fitted: every cell on every task, with every seed. All else are the estimators' defaults.

    Args:
        seeds: of the data, the initial weights and the order of batches.
        epochs: the most epochs.
        part: divides the numbers of sequences.
    """

    seeds: int = 3
    epochs: int = PhasedClassifier.epochs
    part: int = 1

    def fits(self) -> list[Fit]:
        """All fits; cells take turns, so that changes of the machine's speed affect all of them."""
        return [Fit(task, cell, seed) for seed in range(self.seeds) for task in TASKS for cell in CELLS]

    def sizes(self, task: Task) -> tuple[int, int]:
        """The number of sequences for training and for the test."""
        return task.sizes[0] // self.part, task.sizes[1] // self.part


QUICK = Plan(seeds=1, epochs=4, part=10)


def run(plan: Plan, folder: Path | None, before: Callable[[Fit], None]) -> dict[Fit, dict[str, Any]]:
    """All fits; `before` is called before each. With a folder, each leaves a file there, and a later call reads it."""
    found = {}
    for fit in plan.fits():
        before(fit)
        task = TASKS[fit.task]
        place = f"{list(TASKS).index(fit.task)}-{CELLS[fit.cell]}-{fit.seed}"
        found[fit] = kept(folder, place, partial(evaluate, task, fit.cell, fit.seed, plan.sizes(task), plan.epochs))
    return found


def identity(plan: Plan) -> str:
    """A digest of plan, defaults and version, by which a folder of finished fits is found again; seeds may be added."""
    defaults = PhasedClassifier().get_params(), PhasedRegressor().get_params()
    return hashlib.sha256(repr((phased.__version__, defaults, plan.epochs, plan.part)).encode()).hexdigest()[:16]


def references(plan: Plan) -> dict[str, dict[str, float]]:
    """Scores to compare with: published ones, and that of who always predicts the latest value."""
    test = mackey_glass(plan.sizes(TASKS[SERIES])[1], seed=1)
    latest = score(TASKS[SERIES], np.concatenate([x[:, 0] for _, x in test.x]), test.y)
    return {
        EVERY_BIT: {"Phased LSTM, as published (Lechner and Hasani 2020)": 0.5099},
        EVERY_CHANGE: {"Phased LSTM, as published (Lechner and Hasani 2020)": 0.8029},
        SERIES: {"the latest value": latest},
    }
