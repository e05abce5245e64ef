"""Timing: after a warm-up, in rounds that alternate between contestants, as a median with quartiles."""

from __future__ import annotations

import gc
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch

import phased
from phased.machine import processor
from phased.ops.core import core
from phased_lab.bench.instructions import held


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median and the quartiles."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(seconds: list[float]) -> Timing:
        """From several measurements, in seconds."""
        low, _, high = quantiles(seconds, n=4) if len(seconds) > 1 else (seconds[0],) * 3
        return Timing(median(seconds), low, high)

    def per(self, count: int) -> Timing:
        """The time of one of `count` equal parts of a call."""
        return Timing(self.median / count, self.low / count, self.high / count)


def compare(contestants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Timing]:
    """Time each contestant in turn, round by round, so that changes of the machine's speed affect all of them.

    A turn is one call that is not timed, then timed calls for 0.05 s, at least one. So, as in a training loop, the caches are
    those of the contestant's own previous call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in contestants.items():
                run()
                end = time.perf_counter() + 0.05
                while True:
                    begin = time.perf_counter()
                    run()
                    seconds[name].append(time.perf_counter() - begin)
                    if time.perf_counter() > end:
                        break
    finally:
        if collecting:
            gc.enable()
    return {name: Timing.of(values) for name, values in seconds.items()}


@contextmanager
def same_terms(threads: int | None = None) -> Iterator[None]:
    """Flush denormal numbers and set the number of threads, the same for all contestants; both are restored afterwards."""
    flushed = bool((torch.full((1,), 1e-310, dtype=torch.float64) * 1 == 0).item())
    before = torch.get_num_threads()
    torch.set_flush_denormal(True)
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)
        torch.set_num_threads(before)


def machine() -> dict[str, Any]:
    """Versions, machine and settings that affect a measurement, for its record."""
    return {
        "phased": phased.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "instruction_set": None if core is None else core.instruction_set(),
        "environment": held(),
        "command": " ".join(["phased", *map(without_folders, sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d"),
    }


def without_folders(argument: str) -> str:
    """An argument of the command line; of an absolute path, which means nothing on another machine, the last part."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    return f"{option}{equals}{path.name}" if path.is_absolute() else argument
