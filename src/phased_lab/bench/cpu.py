"""Training and inference on a CPU against torch.nn.LSTM: time, memory, growth, and the break-even of sparse and dense."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from phased.ops.cpu import passes
from phased_lab.bench.cases import Case, Sheet, benchmark, each_case, plain
from phased_lab.bench.measure import compare
from phased_lab.bench.work import LEAKY, OURS, PEER, REFERENCE, Work, steps, timed

TABLE = (
    Work(32, 125, 1, 110),
    Work(32, 1000, 1, 110),
    Work(32, 3000, 41, 110),
    Work(32, 1000, 41, 256),
    Work(32, 1000, 1, 110, 0.25),  # as learned open ratios end
)
MEMORY = Work(8, 100_000, 1, 110)
EVEN = tuple(Work(32, 300, 8, 110, ratio) for ratio in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0))
GROWTH = {
    "T": tuple(Work(1, steps, 1, 110) for steps in (100, 1_000, 10_000, 100_000, 1_000_000)),
    "H": tuple(Work(8, 300, 8, units) for units in (16, 32, 64, 128, 256, 512)),
    "B": tuple(Work(batch, 300, 8, 110) for batch in (1, 2, 4, 8, 16, 32, 64, 128)),
    "ratio_on": tuple(Work(16, 300, 8, 110, ratio) for ratio in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)),
}
TRAINING, INFERENCE, PEAK = "training step", "inference", "peak memory of a training step"
OPEN, PRODUCTS = "open units", "whole products"
BREAK_EVEN = f"{OPEN} or {PRODUCTS}"


def break_even(work: Work, rounds: int) -> dict[str, Any]:
    """A training step without a leak by the sparse and by the dense path."""
    step = steps(work, [OURS])[OURS]

    def forced(share: float) -> Callable[[], None]:
        def run() -> None:
            before, passes.BREAK_EVEN = passes.BREAK_EVEN, share
            try:
                step()
            finally:
                passes.BREAK_EVEN = before

        return run

    return {"work": asdict(work), "seconds": compare({OPEN: forced(2.0), PRODUCTS: forced(-1.0)}, rounds)}


def memory(work: Work) -> dict[str, Any]:
    """Bytes that a training step adds to a fresh process that already holds the input and the output's gradient."""
    names = OURS, PEER
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:
        return {"work": asdict(work), "bytes": dict(zip(names, fresh.map(partial(added, work), names), strict=True))}


def added(work: Work, name: str) -> float:
    """Bytes that a training step adds to this process, on Linux only."""
    step = steps(work, [name])[name]
    steps(Work(1, 8, work.D, work.H), [name])[name]()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident("VmRSS")
    step()
    return float(resident("VmHWM") - before)


def resident(which: str) -> int:
    """Bytes of memory this process holds (VmRSS) or has held at most (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


@benchmark(
    Sheet(
        each_case(TRAINING, INFERENCE, PEAK, label="{part}, {case}"),
        {
            "work": lambda row: row.label,
            "`leak=0`": lambda row: row.value(OURS),
            "`leak=0.001`": lambda row: row.value(LEAKY, 0),
            "nn.LSTM": lambda row: row.value(PEER, 0),
            "speed-up, `leak=0`": lambda row: row.speed_up(OURS),
            "speed-up, `leak=0.001`": lambda row: row.speed_up(LEAKY),
        },
    ),
    plain(BREAK_EVEN, *(f"growth of {axis}" for axis in GROWTH)),
    quick={"rounds": 3, "whole": False},
    backend="cpu",
)
def cpu(rounds: int = 15, whole: bool = True) -> Iterator[Case]:
    """Training and inference. If `whole`, also memory, growth, and the break-even of open units and whole products."""
    works = TABLE if whole else TABLE[:2]
    for work in works:
        reference = [REFERENCE] if work.T <= 1000 and whole else []
        yield Case(TRAINING, str(work), partial(timed, work, rounds, OURS, LEAKY, PEER, *reference))
    for work in works:
        yield Case(INFERENCE, str(work), partial(timed, work, rounds, OURS, PEER, train=False))
    if whole:
        yield Case(PEAK, str(MEMORY), partial(memory, MEMORY))
        for work in EVEN:
            yield Case(BREAK_EVEN, str(work), partial(break_even, work, rounds))
        for axis, series in GROWTH.items():
            for work in series:
                names = (OURS, PEER) if work.B * work.T <= 100_000 else (OURS,)  # nn.LSTM would take too long
                yield Case(f"growth of {axis}", str(work), partial(timed, work, 5, *names))
