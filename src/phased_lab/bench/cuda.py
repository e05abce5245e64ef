"""Training and inference on an NVIDIA GPU against torch.nn.LSTM (cuDNN): time, memory, long sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from phased_lab.bench.cases import Case, Cases, Row, Sheet, benchmark, each_case, plain
from phased_lab.bench.work import LEAKY, OURS, PEER, REFERENCE, Work, steps, timed

SPARSE = (
    Work(32, 1000, 1, 110),
    Work(512, 1000, 1, 110),
    Work(32, 1000, 1, 256),
    Work(32, 1000, 1, 512),
    Work(32, 1000, 1, 1024),
)
WIDER = (Work(32, 1000, 41, 110), Work(32, 1000, 41, 256))  # more features
COMMON = (Work(256, 512, 16, 128), Work(128, 1000, 8, 256), Work(1024, 256, 32, 64), Work(64, 3153, 41, 110))  # the last: N-MNIST
OPENER = (Work(32, 1000, 1, 110, 0.25), Work(256, 512, 16, 128, 0.25))  # open ratios as learned ones end
LARGE = (Work(32, 200, 1, 2048), Work(32, 200, 1, 4096))  # too large for one launch: one or two for each step
LEAKING = (*SPARSE, Work(128, 1000, 1, 110), *COMMON)
PRECISE = (Work(32, 1000, 1, 512), Work(32, 1000, 1, 1024), Work(32, 200, 1, 4096), Work(512, 500, 8, 1024))  # with a leak
HALF = (Work(32, 1000, 1, 128), Work(512, 1000, 1, 128), *COMMON[::2], SPARSE[0])  # the first two are cuDNN's fastest case
GRID = tuple(Work(batch, 500, 8, units) for batch in (8, 32, 128, 512) for units in (32, 64, 128, 256, 512, 1024))
MEMORY = (Work(32, 1000, 1, 110), Work(32, 10_000, 1, 110))
LONGEST = tuple(Work(8, steps, 1, 110) for steps in (1_000, 10_000, 100_000, 1_000_000))

TRAINING, LEAK, INFERENCE = "training step, leak 0", "training step, leak 0.001", "inference"
UNTHREADED, PRECISION, HALF_PRECISION = f"{TRAINING}, without autograd's threads", "the same precision", "half precision"
WAITED, PEAK, SIZES, LONG = "one call, waited for", "peak memory of a training step", "units and sequences", "long sequences"
LOW, HALF_PEER, FLOAT32 = f"{OURS} in bfloat16", f"{PEER} in float16", f"{PEER} in float32"


def measured(work: Work, rounds: int, *names: str, profiled: Sequence[str] = (), **options: Any) -> dict[str, Any]:
    """Time steps of models in turns. The kernels of the `profiled` models are timed before."""
    kernels = {name: kernel_times(work, name) for name in profiled}
    if profiled:
        options |= {"gpu": {name: sum(found.values()) for name, found in kernels.items()}, "kernels": kernels}
    return timed(work, rounds, *names, device="cuda", **options)


def without_threads(work: Work, rounds: int) -> dict[str, Any]:
    """A training step without autograd's threads."""
    with torch.autograd.set_multithreading_enabled(False):
        return measured(work, rounds, OURS, PEER)


def kernel_times(work: Work, name: str) -> dict[str, float]:
    """Return the seconds of GPU time in a training step of PhasedLSTM, by kernel. The rest of the step is Python and launches."""
    step = steps(work, [name], "cuda")[name]
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    found: dict[str, float] = {}
    for event in profile.key_averages():
        if event.self_device_time_total:  # names of torch's own kernels are long lists of types
            kernel = event.key.partition("<")[0]
            found[kernel] = found.get(kernel, 0.0) + 1e-6 * float(event.self_device_time_total) / 3
    return found


def memory(work: Work) -> dict[str, Any]:
    """Peak bytes of a training step."""
    return {"work": asdict(work), "bytes": {name: peak_memory(work, name) for name in (OURS, LOW, PEER)}}


def peak_memory(work: Work, name: str) -> float:
    """Return the peak bytes of the second training step, without the input and the gradient of the output."""
    step = steps(work, [name], "cuda")[name]
    step()
    step.rnn.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before)


def long(work: Work) -> dict[str, Any]:
    """Seconds and peak bytes of a training step of a long sequence."""
    return measured(work, 1, OURS, peak=peak_memory(work, OURS))


AUTOCAST = "ours under autocast to bfloat16"
VIEWS = {
    TRAINING: [("{part}, {case}", OURS, PEER)],
    LEAK: [("{part}, {case}", LEAKY, PEER)],
    PRECISION: [
        (f"{LEAK}, {{case}}; both in {number}", f"{LEAKY} in {number}", f"{PEER} in {number}") for number in ("float32", "TF32")
    ],
    HALF_PRECISION: [
        (f"{TRAINING}, {{case}}; nn.LSTM in float16", OURS, HALF_PEER),
        (f"{TRAINING}, {{case}}; {AUTOCAST}, nn.LSTM in float16", LOW, HALF_PEER),
    ],
    INFERENCE: [("{part}, {case}", OURS, PEER)],
    WAITED: [("{case}; {part}", OURS, PEER)],
    PEAK: [("{part}, {case}", OURS, PEER), (f"{{part}}, {{case}}; {AUTOCAST}", LOW, PEER)],
}
"""Rows of the cases of each part: label, model, peer."""


def views(cases: Cases) -> Iterator[Row]:
    """The rows of the first table."""
    for part, rows in VIEWS.items():
        for case in (case for case in cases if case["part"] == part):
            yield from (Row(case, label.format_map(case), own, peer) for label, own, peer in rows)


def busy(row: Row) -> str:
    """The GPU's part of our time."""
    digits = 2 if row.case["part"] == HALF_PRECISION else 1
    return f"{1e3 * row.case['gpu'][row.own]:.{digits}f} ms" if "gpu" in row.case else ""


@benchmark(
    Sheet(
        views,
        {
            "work": lambda row: row.label,
            "PhasedLSTM": lambda row: row.value(digits=2 if row.case["part"] in (HALF_PRECISION, INFERENCE) else 1),
            "GPU time": busy,
            "nn.LSTM (cuDNN)": lambda row: row.value(row.peer, 2 if row.case["part"] == INFERENCE else 1),
            "speed-up": lambda row: row.speed_up(),
        },
    ),
    Sheet(
        each_case(UNTHREADED),
        {
            UNTHREADED: lambda row: row.label,
            "PhasedLSTM": lambda row: row.value(row.own),
            "nn.LSTM (cuDNN)": lambda row: row.value(PEER),
            "speed-up": lambda row: row.speed_up(),
        },
    ),
    plain(SIZES, LONG),
    gpu={},
    quick={"rounds": 2, "whole": False},
    backend="cuda",
)
def cuda(rounds: int = 7, whole: bool = True) -> Iterator[Case]:
    """Training, inference and memory. If `whole`, also the reference loop, many sizes, and longer and longer sequences."""
    for work in (*SPARSE, *WIDER, *COMMON, *OPENER, *LARGE):
        reference = [REFERENCE] if whole and work is SPARSE[0] else []
        yield Case(TRAINING, str(work), partial(measured, work, rounds, OURS, PEER, *reference, profiled=(OURS,)))
        yield Case(UNTHREADED, str(work), partial(without_threads, work, rounds))
    for work in LEAKING:
        yield Case(LEAK, str(work), partial(measured, work, rounds, LEAKY, PEER, profiled=(LEAKY,)))
    for work in PRECISE:
        names = [name for _, *pair in VIEWS[PRECISION] for name in pair]
        yield Case(PRECISION, str(work), partial(measured, work, rounds, *names))
    for work in HALF:
        # nn.LSTM is fastest in float16.
        yield Case(HALF_PRECISION, str(work), partial(measured, work, rounds, OURS, LOW, HALF_PEER, profiled=(OURS, LOW)))
    for work in SPARSE:
        yield Case(INFERENCE, str(work), partial(measured, work, rounds, OURS, PEER, train=False))
    for part, train in ((TRAINING, True), (INFERENCE, False)):
        yield Case(WAITED, f"{part}, {SPARSE[0]}", partial(measured, SPARSE[0], rounds, OURS, PEER, train=train, alone=True))
    for work in MEMORY:
        yield Case(PEAK, str(work), partial(memory, work))
    if whole:
        for work in GRID:
            for own in (OURS, LEAKY):
                # By torch's defaults "nn.LSTM" rounds the factors of its products to TF32.
                yield Case(SIZES, f"{work}, {own}", partial(measured, work, 3, own, PEER, FLOAT32))
        for work in LONGEST:
            yield Case(LONG, str(work), partial(long, work))
