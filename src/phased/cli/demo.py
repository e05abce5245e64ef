"""`phased demo`: three networks trained on one task, the best of them at work event by event, and a page to look at."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from phased import Stream
from phased.cli.bench import table
from phased.cli.train import train
from phased.cost import updates
from phased.experiments.run import Run, trained
from phased.experiments.sweep import Summary, runs_of
from phased.layer import PhasedRNN
from phased.models.baselines import Baseline
from phased.report.drawing.pictures import make_pictures
from phased.report.html.page import make_page

EVENTS = 20_000


def demo(console: Console, out: Path) -> Summary:
    """Train, stream, draw; says at each step what it does and found."""
    results = out / "results"
    runs = runs_of("frequency", "quick", [0])
    console.print(
        "[bold]1. Training[/]: is a wave's period between 5 and 6 ms? Its samples come at random times.", highlight=False
    )
    summary = train(console, runs, results)
    if summary.failed:
        return summary
    console.print("\n[bold]2. At work[/]: events of one wave through the trained layers, on one core.", highlight=False)
    stream(console, {run.network.model: run for run in runs}, results)
    console.print("\n[bold]3. To look at[/]", highlight=False)
    with console.status("drawing"):
        files = [make_page(results, out), *make_pictures(results, out)]
    for file in files:
        if file.suffix != ".svg":
            console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
    console.print(
        f"\nOpen the first in a browser. Next: {me()} run adding --scale quick; {me()} bench cpu --quick; {me()} info.",
        highlight=False,
        markup=False,
    )
    return summary


def stream(console: Console, runs: dict[str, Run], results: Path) -> None:
    """Time of an event: the trained Phased LSTM as a stream, and the trained LSTM as a cell and as a layer."""
    random = np.random.default_rng(0)
    moments = np.cumsum(2 * random.random(EVENTS))
    wave = np.sin(2 * np.pi * moments / 5.5)[:, None].astype(np.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = table("", "way", "updates of a unit", "us an event")
        rnn = trained(runs["phased"], results).rnn
        assert isinstance(rnn, PhasedRNN)
        opened = float(updates(rnn, torch.from_numpy(moments)).double().mean()) / EVENTS
        live = Stream(rnn)

        def push_all() -> None:
            live.reset()
            for x, t in zip(wave, moments, strict=True):
                live.push(x, t)

        def run_all() -> None:
            live.reset()
            live.run(wave, moments)

        baseline = trained(runs["lstm"], results).rnn
        assert isinstance(baseline, Baseline)
        events = torch.from_numpy(np.concatenate([wave, moments[:, None]], axis=1).astype(np.float32))
        contestants = {
            "Phased LSTM, Stream.push: a call an event": (opened, push_all),
            "LSTM, nn.LSTMCell: a call an event": (1.0, cell(baseline.lstm, events)),
            "Phased LSTM, Stream.run: all in one call": (opened, run_all),
            "LSTM, nn.LSTM: all in one call": (1.0, lambda: baseline.lstm(events)),
        }
        with torch.inference_mode():
            for name, (share, call) in contestants.items():
                rows.add_row(name, f"{share:.1%} of the events", f"{1e6 * seconds(call):.2f}")
        console.print(rows)
    finally:
        torch.set_num_threads(before)


def seconds(run: Callable[[], Any]) -> float:
    """Seconds an event takes: the best of three."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best / EVENTS


def cell(lstm: torch.nn.LSTM, events: Tensor) -> Callable[[], None]:
    """The same weights in an LSTMCell, called for every event."""
    made = torch.nn.LSTMCell(lstm.input_size, lstm.hidden_size).eval()
    made.load_state_dict({name: getattr(lstm, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")})

    def run() -> None:
        state = torch.zeros(1, lstm.hidden_size), torch.zeros(1, lstm.hidden_size)
        for event in events.unsqueeze(1):
            state = made(event, state)

    return run


def me() -> str:
    """This command, as it can be typed here."""
    return "phased" if shutil.which("phased") else sys.argv[0]
