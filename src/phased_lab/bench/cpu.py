"""Training and inference on a CPU against torch.nn.LSTM: time, memory, growth, and the break-even of sparse and dense."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import e
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phased import PhasedLSTM
from phased.init import LogUniform
from phased.ops.cpu import passes as cpu
from phased_lab.bench.measure import Timing, compare

USUAL_RATIO = 0.05
"""The open ratio of a work that does not say otherwise."""


@dataclass(frozen=True)
class Work:
    """A batch of B sequences of T steps of D features through H units; steps are 0 to 2 apart, 1 on average."""

    B: int
    T: int
    D: int
    H: int
    ratio_on: float = USUAL_RATIO

    def __str__(self) -> str:
        ratio = "" if self.ratio_on == USUAL_RATIO else f" r_on {self.ratio_on:g}"
        return f"B{self.B} T{self.T} D{self.D} H{self.H}{ratio}"

    def data(self) -> tuple[Tensor, Tensor, Tensor]:
        """Input, time, and a gradient at every step."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.T, self.B, self.D, generator=generator)
        time = (2 * torch.rand(self.T, self.B, dtype=torch.float64, generator=generator)).cumsum(0)
        return x, time, torch.randn(self.T, self.B, self.H, generator=generator).div_(self.T)

    def layer(self, leak: float, backend: str = "cpu") -> PhasedLSTM:
        """A layer with the default periods, exp U(1, 6), without the check of the first batches for units that never open."""
        torch.manual_seed(0)
        rnn = PhasedLSTM(self.D, self.H, period=LogUniform(e, e**6), ratio_on=self.ratio_on, leak=leak, backend=backend)
        rnn._openings.active = False
        return rnn


TABLE = (
    Work(32, 125, 1, 110),
    Work(32, 1000, 1, 110),
    Work(32, 3000, 41, 110),
    Work(32, 1000, 41, 256),
    Work(32, 1000, 1, 110, 0.25),  # as learned open ratios end
)
MEMORY = Work(8, 100_000, 1, 110)


def train(rnn: nn.Module, gradient: Tensor, *inputs: Tensor) -> Callable[[], None]:
    """One training step without the optimiser: forward, and backward from a gradient at every step."""

    def step() -> None:
        rnn.zero_grad(set_to_none=True)
        output, _ = rnn(*inputs)
        output.backward(gradient)

    return step


def infer(rnn: nn.Module, *inputs: Tensor) -> Callable[[], None]:
    """One forward pass in eval."""
    rnn.eval()

    def step() -> None:
        with torch.no_grad():
            rnn(*inputs)

    return step


def training(work: Work, rounds: int, reference: bool) -> dict[str, Timing]:
    """A training step: ours sparse, ours with the paper's leak, nn.LSTM and, optionally, the reference loop."""
    x, time, gradient = work.data()
    contestants: dict[str, Callable[[], None]] = {
        "sparse": train(work.layer(0.0), gradient, x, time),
        "leak": train(work.layer(1e-3), gradient, x, time),
        "nn.LSTM": train(nn.LSTM(work.D, work.H), gradient, x),
    }
    timings = compare(contestants, rounds)
    if reference:  # far slower: two rounds are enough
        timings |= compare({"reference": train(work.layer(1e-3, "reference"), gradient, x, time)}, 2)
    return timings


def inference(work: Work, rounds: int) -> dict[str, Timing]:
    """A forward pass in eval: ours and nn.LSTM."""
    x, time, _ = work.data()
    return compare({"sparse": infer(work.layer(0.0), x, time), "nn.LSTM": infer(nn.LSTM(work.D, work.H), x)}, rounds)


def growth(rounds: int) -> Iterator[tuple[str, Work, float, float]]:
    """Time of a training step, ours and nn.LSTM's (nan where that takes too long), as T, H, B and ratio_on grow."""
    series: dict[str, list[Work]] = {
        "T": [Work(1, steps, 1, 110) for steps in (100, 1_000, 10_000, 100_000, 1_000_000)],
        "H": [Work(8, 300, 8, units) for units in (16, 32, 64, 128, 256, 512)],
        "B": [Work(batch, 300, 8, 110) for batch in (1, 2, 4, 8, 16, 32, 64, 128)],
        "ratio_on": [Work(16, 300, 8, 110, ratio) for ratio in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)],
    }
    for axis, works in series.items():
        for work in works:
            x, time, gradient = work.data()
            contestants = {"sparse": train(work.layer(0.0), gradient, x, time)}
            if work.B * work.T <= 100_000:
                contestants["nn.LSTM"] = train(nn.LSTM(work.D, work.H), gradient, x)
            timings = compare(contestants, rounds)
            peer = timings["nn.LSTM"].median if "nn.LSTM" in timings else float("nan")
            yield axis, work, timings["sparse"].median, peer


def break_even(rounds: int) -> list[dict[str, float]]:
    """A training step at leak 0 by the sparse and by the dense path, as ratio_on grows."""
    rows = []
    for ratio in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0):
        work = Work(32, 300, 8, 110, ratio)
        x, time, gradient = work.data()

        def forced(share: float, step: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                before, cpu.BREAK_EVEN = cpu.BREAK_EVEN, share
                try:
                    step()
                finally:
                    cpu.BREAK_EVEN = before

            return run

        step = train(work.layer(0.0), gradient, x, time)
        timings = compare({"sparse": forced(2.0, step), "dense": forced(-1.0, step)}, rounds)
        rows.append({"ratio_on": ratio, "sparse": timings["sparse"].median, "dense": timings["dense"].median})
    return rows


def peak_memory(work: Work, model: str) -> float:
    """Bytes a training step adds to a fresh process that already holds the input and the output's gradient."""
    values = asdict(work)
    code = f"from phased_lab.bench.cpu import Work, report_memory; report_memory(Work(**{values!r}), {model!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def report_memory(work: Work, model: str) -> None:
    """Print the number for `peak_memory`; runs in the fresh process, on Linux only."""
    x, time, gradient = work.data()
    small = Work(1, 8, work.D, work.H)
    build: Any = {"sparse": lambda w: w.layer(0.0), "nn.LSTM": lambda w: nn.LSTM(w.D, w.H)}[model]
    inputs = (x, time) if model == "sparse" else (x,)
    warm_x, warm_time, warm_gradient = small.data()
    train(build(small), warm_gradient, *((warm_x, warm_time) if model == "sparse" else (warm_x,)))()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident("VmRSS")
    train(build(work), gradient, *inputs)()
    print(resident("VmHWM") - before)


def resident(which: str) -> int:
    """Bytes of memory this process holds (VmRSS) or has held at most (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])
