"""Timing: after a warm-up, in rounds that alternate between contestants, as a median with quartiles."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import numpy as np
import torch

import phased
from phased.machine import processor, using_threads
from phased.ops.cuda.kernels import driver
from phased.ops.native import core

# Environment variables that restrict the core, PyTorch, oneDNN and MKL, which read them when loaded, to one instruction set.
# onnxruntime has none. PyTorch, oneDNN and MKL have no SSE2 kernels. Their lowest set is SSE4.
RESTRICTED = {
    "avx512": {"PHASED_INSTRUCTION_SET": "avx512"},
    "avx2": {
        "PHASED_INSTRUCTION_SET": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "baseline": {
        "PHASED_INSTRUCTION_SET": "baseline",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
}


class Timing(NamedTuple):
    """Seconds per call: the median and the quartiles."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Timing:
        """From several measurements, in seconds."""
        low, _, high = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else (seconds[0],) * 3
        return Timing(median(seconds), low, high)

    def per(self, count: int) -> Timing:
        """The time of one of `count` equal parts of a call."""
        return Timing(*(value / count for value in self))


TURN = 0.05
"""Seconds of a turn of a contestant with short calls."""


def compare(
    contestants: Mapping[str, Callable[[], Any]], rounds: int, *, sync: Callable[[], None] | None = None, long: bool = False
) -> dict[str, Timing]:
    """Time the contestants in turns, round by round, so that changes of the machine's speed affect every contestant.

    A turn is one call that is not timed, then timed calls for 0.05 s, at least one. So, as in a training loop, the caches contain
    the data of the contestant.

    Args:
        contestants: functions without arguments, by name.
        rounds: turns of each.
        sync: synchronises a GPU before the first and after the last call of a turn. The mean time of the calls of a turn is one
            measurement.
        long: a turn is one call, which is timed: it takes long, and was warmed up.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in contestants.items():
                if not long:
                    run()
                seconds[name] += turn(run, 0.0 if long else TURN, sync)
    finally:
        if collecting:
            gc.enable()
    return {name: Timing.of(values) for name, values in seconds.items()}


def turn(run: Callable[[], Any], duration: float, sync: Callable[[], None] | None) -> list[float]:
    """Return the seconds of every call of a turn. With `sync` return the mean."""
    if sync is not None:
        sync()
    times = [time.perf_counter()]
    while len(times) == 1 or times[-1] - times[0] < duration:
        run()
        times.append(time.perf_counter())
    if sync is None:
        return np.diff(times).tolist()
    sync()
    return [(time.perf_counter() - times[0]) / (len(times) - 1)]


def synchroniser() -> Callable[[], None] | None:
    """Return the function that synchronises the GPU, or None on a machine without a GPU."""
    return torch.cuda.synchronize if torch.cuda.is_available() else None


@contextmanager
def same_terms(threads: int | None = None) -> Iterator[None]:
    """Flush denormal numbers and set the number of threads, for all contestants. Both settings are restored afterwards."""
    flushed = bool((torch.full((1,), 1e-310, dtype=torch.float64) * 1 == 0).item())
    torch.set_flush_denormal(True)
    try:
        with using_threads(threads or torch.get_num_threads()):
            yield
    finally:
        torch.set_flush_denormal(flushed)


def machine(on_gpu: bool = False) -> dict[str, Any]:
    """Return the versions, the machine and the settings that affect a measurement, on request with the GPU."""
    return {
        "phased": phased.__version__,
        "commit": commit(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "instruction_set": None if core is None else core.instruction_set(),
        "environment": restricted_variables(),
        "command": " ".join(["phased", *map(without_folders, sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d"),
    } | (gpu() if on_gpu else {})


def commit() -> str | None:
    """The commit that last changed the source of this checkout, followed by "-dirty" after later changes.

    PHASED_COMMIT names the commit of a copy without git's folder. Without both it is None.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[2]), *words, "--", "."]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    found = os.environ.get("PHASED_COMMIT", "")
    if not found and shutil.which("git") and (found := git("log", "-1", "--format=%H")) and git("status", "--porcelain"):
        found += "-dirty"
    return found or None


def gpu() -> dict[str, Any]:
    """The GPU and the versions that affect a measurement."""
    newest = ctypes.c_int()
    driver().cuDriverGetVersion(ctypes.byref(newest))
    return {
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "driver": newest.value,  # the newest CUDA version that it supports, as 1000 * major + 10 * minor
    }


def without_folders(argument: str) -> str:
    """Return an argument of the command line. An absolute path is shortened to its last part."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    return f"{option}{equals}{path.name}" if path.is_absolute() else argument


def restricted_variables() -> dict[str, str]:
    """The variables of `RESTRICTED` that are set in this process."""
    return {name: os.environ[name] for name in RESTRICTED["avx2"] if name in os.environ}
