"""Time per event of a stream on one core, against nn.LSTM, nn.LSTMCell and onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import e
from typing import Any

import numpy as np
import torch
from torch import nn

from phased import PhasedLSTM, Stream
from phased.init import LogUniform
from phased_lab.bench import lstm, onnx
from phased_lab.bench.measure import Timing, compare

FEATURES = 41


def layer(units: int, ratio_on: float = 0.05, gate: str = "triangle") -> PhasedLSTM:
    """A layer with the default periods, exp U(1, 6)."""
    torch.manual_seed(0)
    return PhasedLSTM(FEATURES, units, period=LogUniform(e, e**6), ratio_on=ratio_on, gate=gate).eval()


def events(count: int) -> tuple[Any, Any]:
    """Features and times of events 0 to 2 apart, 1 on average."""
    generator = np.random.default_rng(0)
    return generator.standard_normal((count, FEATURES), dtype=np.float32), np.cumsum(2 * generator.random(count))


def per_event(run: Callable[[], Any], count: int, rounds: int) -> Timing:
    """Seconds per event."""
    return compare({"it": run}, rounds)["it"].per(count)


def ours(units: int, count: int, rounds: int, dense: bool = False) -> Timing:
    """`Stream.run`; with `dense`, the same core with every unit open, which is an LSTM."""
    return per_event(at_once(Stream(layer(units, 1.0, "square") if dense else layer(units)), *events(count)), count, rounds)


def looked_up(units: int, count: int, rounds: int) -> Timing:
    """`Stream.run` on indices into a table, such as an event camera's pixels; the table holds the input products."""
    generator = torch.Generator().manual_seed(0)
    stream = Stream(layer(units), table=torch.randn(2 * 34 * 34, FEATURES, generator=generator))
    index = torch.randint(2 * 34 * 34, (count,), generator=generator).numpy()
    return per_event(at_once(stream, index, events(count)[1]), count, rounds)


def pushed(units: int, count: int, rounds: int) -> Timing:
    """`Stream.push` in a Python loop, numpy in and out."""
    return per_event(pushes(Stream(layer(units)), *events(count)), count, rounds)


def pushes(stream: Stream, x: Any, t: Any) -> Callable[[], None]:
    """A function that pushes the events one by one."""
    times = t.tolist()

    def run() -> None:
        stream.reset()
        for row, moment in zip(x, times, strict=True):
            stream.push(row, moment)

    return run


def at_once(stream: Stream, x: Any, t: Any) -> Callable[[], None]:
    """A function that takes all events in one call."""

    def run() -> None:
        stream.reset()
        stream.run(x, t)

    return run


def lstm_sequence(units: int, count: int, rounds: int) -> Timing:
    """nn.LSTM over the whole sequence in one call, which needs all events in advance."""
    return per_event(lstm.whole(nn.LSTM(FEATURES, units).eval(), torch.from_numpy(events(count)[0])), count, rounds)


def lstm_cell(units: int, count: int, rounds: int) -> Timing:
    """nn.LSTMCell in a Python loop."""
    return per_event(lstm.steps(nn.LSTMCell(FEATURES, units).eval(), torch.from_numpy(events(count)[0])), count, rounds)


def onnx_step(units: int, count: int, rounds: int) -> Timing | None:
    """onnxruntime's LSTM, one step per call; None if it is not installed."""
    generator = np.random.default_rng(0)
    shapes = (4 * units, FEATURES), (4 * units, units), (4 * units,)
    session = onnx.lstm_step(*((generator.standard_normal(shape) / 10).astype(np.float32) for shape in shapes))
    return None if session is None else per_event(onnx.steps(session, events(count)[0], units), count, rounds)


def flatness(units: int = 110) -> Iterator[tuple[int, float]]:
    """Seconds per event in longer and longer streams, a thousand events per call."""
    at_a_time = 1_000
    for count in (1_000, 10_000, 100_000, 1_000_000):
        stream = Stream(layer(units))
        x, t = events(count)
        stream.run(x[:at_a_time], t[:at_a_time])
        stream.reset()
        begin = time.perf_counter()
        for first in range(0, count, at_a_time):
            stream.run(x[first : first + at_a_time], t[first : first + at_a_time])
        yield count, (time.perf_counter() - begin) / count
