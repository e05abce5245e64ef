"""Training and inference on an NVIDIA GPU against torch.nn.LSTM (cuDNN): time, memory, long sequences, lower bounds of work."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from phased.ops.cuda.driver import driver
from phased_lab.bench.cpu import Work, infer, train
from phased_lab.bench.measure import Timing

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
LEAKY = (*SPARSE, Work(128, 1000, 1, 110), *COMMON)
PRECISE = (Work(32, 1000, 1, 512), Work(32, 1000, 1, 1024), Work(32, 200, 1, 4096), Work(512, 500, 8, 1024))  # with a leak
HALF = (Work(32, 1000, 1, 128), Work(512, 1000, 1, 128), *COMMON[::2], SPARSE[0])  # the first two are cuDNN's fastest case
OURS = {"ours": False, "ours bfloat16": True}  # whether under autocast to bfloat16
GRID = tuple(Work(batch, 500, 8, units) for batch in (8, 32, 128, 512) for units in (32, 64, 128, 256, 512, 1024))
MEMORY = (Work(32, 1000, 1, 110), Work(32, 10_000, 1, 110))
LONGEST = tuple(Work(8, steps, 1, 110) for steps in (1_000, 10_000, 100_000, 1_000_000))


def gpu() -> dict[str, Any]:
    """The GPU and the versions that affect a measurement, for its record."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "driver": driver_version(),
    }


def driver_version() -> int:
    """The newest CUDA version that the driver supports, as 1000 * major + 10 * minor."""
    version = ctypes.c_int()
    driver().cuDriverGetVersion(ctypes.byref(version))
    return version.value


def compare(contestants: Mapping[str, Callable[[], Any]], rounds: int, alone: bool = False) -> dict[str, Timing]:
    """Time each contestant in turn, round by round.

    A turn is one call that is not timed, then calls for 0.05 s, one after another as in a training loop. The GPU is synchronised
    before the first and after the last of them, and their mean is one measurement. With `alone`, it is synchronised after each.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        for _ in range(3):
            run()
    for _ in range(rounds):
        for name, run in contestants.items():
            run()
            torch.cuda.synchronize()
            begin, calls = time.perf_counter(), 0
            while not calls or time.perf_counter() - begin < 0.05:
                run()
                calls += 1
                if alone:
                    torch.cuda.synchronize()
            torch.cuda.synchronize()
            seconds[name].append((time.perf_counter() - begin) / calls)
    return {name: Timing.of(values) for name, values in seconds.items()}


def on_gpu(work: Work) -> tuple[Tensor, Tensor, Tensor]:
    """The work's data on the GPU: input, time, and a gradient at every step."""
    x, moments, gradient = work.data()
    return x.cuda(), moments.cuda(), gradient.cuda()


def training(work: Work, leak: float, rounds: int, reference: bool = False, alone: bool = False) -> dict[str, Timing]:
    """A training step of float32 tensors, by torch's defaults: ours and nn.LSTM's; optionally the reference loop's."""
    x, moments, gradient = on_gpu(work)
    timings = compare(
        {
            "ours": train(work.layer(leak, "cuda").cuda(), gradient, x, moments),
            "nn.LSTM": train(nn.LSTM(work.D, work.H).cuda(), gradient, x),
        },
        rounds,
        alone,
    )
    if reference:  # far slower: one round is enough
        timings |= compare({"reference": train(work.layer(leak, "reference").cuda(), gradient, x, moments)}, 1)
    return timings


def precision(work: Work, leak: float, rounds: int) -> dict[str, Timing]:
    """A training step with products of the same precision: in float32, and with factors rounded to TF32.

    By torch's defaults nn.LSTM rounds the factors of its products to TF32 (10 bits of a float32's 23), and matrix products, ours
    among them, do not.
    """
    x, moments, gradient = on_gpu(work)
    ours = train(work.layer(leak, "cuda").cuda(), gradient, x, moments)
    lstm = train(nn.LSTM(work.D, work.H).cuda(), gradient, x)
    return compare(
        {
            "ours": with_precision("ieee", ours),
            "nn.LSTM": with_precision("ieee", lstm),
            "ours TF32": with_precision("tf32", ours),
            "nn.LSTM TF32": with_precision("tf32", lstm),
        },
        rounds,
    )


def with_precision(name: str, step: Callable[[], None]) -> Callable[[], None]:
    """The step with products of this precision, "ieee" or "tf32"."""
    settings: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn)

    def run() -> None:
        before = [setting.fp32_precision for setting in settings]
        for setting in settings:
            setting.fp32_precision = name
        try:
            step()
        finally:
            for setting, value in zip(settings, before, strict=True):
                setting.fp32_precision = value

    return run


def half(work: Work, rounds: int) -> dict[str, Timing]:
    """A training step: ours outside and inside an autocast region to bfloat16, and nn.LSTM's in float16, its fastest."""
    x, moments, gradient = on_gpu(work)
    ours = train(work.layer(0.0, "cuda").cuda(), gradient, x, moments)
    return compare(
        {
            "ours": ours,
            "ours bfloat16": autocast(ours),
            "nn.LSTM float16": train(nn.LSTM(work.D, work.H).cuda().half(), gradient.half(), x.half()),
        },
        rounds,
    )


def autocast(step: Callable[[], None]) -> Callable[[], None]:
    """The step under autocast to bfloat16."""

    def run() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            step()

    return run


def inference(work: Work, rounds: int, alone: bool = False) -> dict[str, Timing]:
    """A forward pass in eval."""
    x, moments, _ = on_gpu(work)
    return compare(
        {"ours": infer(work.layer(0.0, "cuda").cuda(), x, moments), "nn.LSTM": infer(nn.LSTM(work.D, work.H).cuda(), x)},
        rounds,
        alone,
    )


def kernel_times(work: Work, leak: float, low: bool = False) -> dict[str, float]:
    """Seconds of GPU time in a training step of ours, by kernel; the rest of the step is Python and launches.

    With `low`, under autocast to bfloat16.
    """
    x, moments, gradient = on_gpu(work)
    step = train(work.layer(leak, "cuda").cuda(), gradient, x, moments)
    step = autocast(step) if low else step
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    found: dict[str, float] = {}
    for event in profile.key_averages():
        if event.self_device_time_total:  # names of torch's own kernels are long lists of types
            name = event.key.partition("<")[0]
            found[name] = found.get(name, 0.0) + 1e-6 * float(event.self_device_time_total) / 3
    return found


def floor(work: Work) -> dict[str, float]:
    """Lower bounds of a training step over open units: multiply-adds, bytes of weights read, dependent steps."""
    events = work.B * work.T * work.H * work.ratio_on
    columns = work.H + work.D + 1
    return {
        "events": events,
        "multiply_adds": 3 * 4 * events * columns,
        "bytes_of_weights": 2 * 4 * 4 * events * work.H,
        "dependent_steps": 2 * work.T,
    }


def peak_memory(work: Work, model: str) -> float:
    """Peak bytes of a training step, beyond the input and the output's gradient; measured at the second step."""
    x, moments, gradient = on_gpu(work)
    layer: nn.Module = nn.LSTM(work.D, work.H).cuda() if model == "nn.LSTM" else work.layer(0.0, "cuda").cuda()
    step = train(layer, gradient, *((x,) if model == "nn.LSTM" else (x, moments)))
    step = autocast(step) if model == "ours bfloat16" else step
    step()
    layer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before)


def longest() -> Iterator[tuple[Work, float, float]]:
    """Seconds and peak bytes of a training step as sequences grow to a million steps."""
    for work in LONGEST:
        peak = peak_memory(work, "ours")
        x, moments, gradient = on_gpu(work)
        timing = compare({"ours": train(work.layer(0.0, "cuda").cuda(), gradient, x, moments)}, 1)["ours"]
        yield work, timing.median, peak


def grid(rounds: int) -> Iterator[tuple[Work, float, dict[str, Timing]]]:
    """A training step at many numbers of units and sequences, without and with a leak.

    "nn.LSTM" is that of torch's defaults, which rounds the factors of its products to TF32.
    """
    for work in GRID:
        x, moments, gradient = on_gpu(work)
        lstm = train(nn.LSTM(work.D, work.H).cuda(), gradient, x)
        peers = {"nn.LSTM": lstm, "nn.LSTM float32": with_precision("ieee", lstm)}
        for leak in (0.0, 1e-3):
            ours = train(work.layer(leak, "cuda").cuda(), gradient, x, moments)
            yield work, leak, compare({"ours": ours} | peers, rounds)


def row(work: Work, timings: Mapping[str, Timing], **more: Any) -> dict[str, Any]:
    """One row of the result."""
    return {"work": asdict(work)} | {name: asdict(timing) for name, timing in timings.items()} | more
