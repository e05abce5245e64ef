"""Time per event of a stream on one core, against nn.LSTM, nn.LSTMCell and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from phased import PhasedLSTM, Stream
from phased_lab.bench import peers
from phased_lab.bench.cases import Case, Row, Sheet, benchmark, contestants, plain
from phased_lab.bench.measure import Timing, compare

FEATURES = 41
RUN, PUSH, SEQUENCE = "Stream.run", "Stream.push, numpy", "nn.LSTM, whole sequence"
DENSE = "Stream.run, every unit open"
"""The same core as an LSTM."""


def layer(units: int, ratio_on: float = 0.05, gate: str = "triangle") -> PhasedLSTM:
    """A layer with the default periods, exp U(1, 6)."""
    torch.manual_seed(0)
    return PhasedLSTM(FEATURES, units, ratio_on=ratio_on, gate=gate).eval()


def events(count: int) -> tuple[Any, Any]:
    """Features and times of events 0 to 2 apart, 1 on average."""
    generator = np.random.default_rng(0)
    return generator.standard_normal((count, FEATURES), dtype=np.float32), np.cumsum(2 * generator.random(count))


def ran(stream: Stream, x: Any, t: Any, at_a_time: int | None = None) -> Callable[[], None]:
    """All events in one call of `Stream.run`, or in several calls of at most `at_a_time` events."""
    size = at_a_time or len(t)
    parts = [(x[first : first + size], t[first : first + size]) for first in range(0, len(t), size)]

    def run() -> None:
        stream.reset()
        for part in parts:
            stream.run(*part)

    return run


def pushed(stream: Stream, x: Any, t: Any) -> Callable[[], None]:
    """`Stream.push` of one event after another, in a Python loop."""
    times = t.tolist()

    def run() -> None:
        stream.reset()
        for row, moment in zip(x, times, strict=True):
            stream.push(row, moment)

    return run


def looked_up(units: int, t: Any) -> Callable[[], None]:
    """`Stream.run` on indices into a table of input products, such as the pixels of an event camera."""
    generator = torch.Generator().manual_seed(0)
    pixels = 2 * 34 * 34
    stream = Stream(layer(units), table=torch.randn(pixels, FEATURES, generator=generator))
    return ran(stream, torch.randint(pixels, (len(t),), generator=generator).numpy(), t)


def per_event(ways: Mapping[str, tuple[Callable[[], Any], int]], rounds: int) -> dict[str, Timing]:
    """Seconds per event of each way, which is given with its number of events."""
    timings = compare({name: run for name, (run, _) in ways.items()}, rounds)
    return {name: timing.per(ways[name][1]) for name, timing in timings.items()}


def measure(units: int, count: int, rounds: int, every_way: bool = False) -> dict[str, Any]:
    """Time a layer with open units, with all units, and an LSTM. Those that are slow take a tenth of the events."""
    (x, t), few, rnn = events(count), max(100, count // 10), nn.LSTM(FEATURES, units).eval()
    rows = torch.from_numpy(x[:few])
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        RUN: (ran(Stream(layer(units)), x, t), count),
        DENSE: (ran(Stream(layer(units, 1.0, "square")), x[:few], t[:few]), few),
        SEQUENCE: (peers.whole(rnn, rows), few),
    }
    if every_way:
        ways |= {
            "Stream.run, looked up": (looked_up(units, t), count),
            PUSH: (pushed(Stream(layer(units)), x, t), count),
            "onnxruntime LSTM, step": (peers.by_onnx(rnn, rows)["step"], few),
            "nn.LSTMCell, step": (peers.steps(rnn, rows), few),
        }
    return {"seconds": per_event(ways, rounds)}


def long(count: int, rounds: int) -> dict[str, Any]:
    """A stream of many events."""
    return {"seconds": per_event({RUN: (ran(Stream(layer(110)), *events(count), at_a_time=1_000), count)}, rounds)}


def speed_up(row: Row, whole: str, step: str, of_whole: bool) -> str:
    """Our speed-up over another way: of many events per call if it takes these, else of one event per call."""
    if row.own in (whole, step) or of_whole != (row.own.startswith(RUN) or "whole" in row.own):
        return ""
    return row.speed_up(whole if of_whole else step, row.own)


@benchmark(
    Sheet(
        contestants("an event"),
        {
            "an event, H110 D41, one core": lambda row: row.label,
            "us": lambda row: f"{1e6 * row.median():.2f}",
            "speed-up of `Stream.run`": lambda row: speed_up(row, RUN, PUSH, of_whole=True),
            "speed-up of `Stream.push`": lambda row: speed_up(row, RUN, PUSH, of_whole=False),
        },
    ),
    plain("an event of a large layer", "an event of a long stream"),
    quick={"rounds": 3, "events": 2_000, "units": (512, 1024), "lengths": ()},
    threads=1,
    backend="cpu",
)
def stream(
    rounds: int = 11,
    events: int = 20_000,
    units: tuple[int, ...] = (512, 1024, 2048),
    lengths: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000),
) -> Iterator[Case]:
    """Events through 110 units by every way, through large layers, and in longer and longer streams."""
    yield Case("an event", "H110 D41", partial(measure, 110, events, rounds, every_way=True))
    for each in units:
        yield Case("an event of a large layer", f"H{each} D41", partial(measure, each, events // 10, rounds))
    for count in lengths:
        yield Case("an event of a long stream", f"{count:,}", partial(long, count, min(rounds, 3)))
