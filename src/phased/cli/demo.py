"""`phased demo`: trains networks on one task, streams events through them, and makes a page of the results."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from phased import Stream
from phased.cli.report import save_report
from phased.cli.table import table
from phased.cli.train import train
from phased.cost import updates
from phased.experiments import catalogue
from phased.experiments.descriptor import Demo, Events
from phased.experiments.folder import read
from phased.experiments.run import Run, trained
from phased.experiments.sweep import Summary, runs_of
from phased.layer import PhasedRNN
from phased.learn.baselines import Baseline

EVENTS = 20_000


def demo(console: Console, out: Path) -> Summary:
    """Train, stream and draw; prints each step and its result."""
    results = out / "results"
    shown = chosen()
    runs = runs_of(shown.study, "quick", [0])
    console.print(f"[bold]1. Training[/]: {escape(shown.question)}", highlight=False)
    summary = train(console, runs, results)
    if summary.failed:
        return summary
    console.print("\n[bold]2. Streaming[/]: events of one sequence through the trained layers, on one core.", highlight=False)
    stream(console, runs, results, shown.events(EVENTS))
    console.print("\n[bold]3. Page and pictures[/]", highlight=False)
    with console.status("drawing"):
        files = save_report(read(results), results, out)
    for file in files:
        if file.suffix != ".svg":
            console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
    console.print(
        f"\nOpen the first in a browser. Next: {me()} run --help; {me()} bench cpu --quick; {me()} info.",
        highlight=False,
        markup=False,
    )
    return summary


def chosen() -> Demo:
    """The demo of the first experiment that has one."""
    for experiment in catalogue.experiments().values():
        if experiment.demo is not None:
            return experiment.demo
    raise ValueError("at least one experiment must have a demo, got none. Add a `demo` to a descriptor.")


def stream(console: Console, runs: Sequence[Run], results: Path, events: Events) -> None:
    """Time per event: the trained layer with time gates as a stream, and a trained LSTM as a cell and as a layer."""
    layers = [layer(run, results) for run in runs]
    gated = next((rnn for rnn in layers if isinstance(rnn, PhasedRNN)), None)
    plain = next((rnn for rnn in layers if isinstance(rnn, Baseline) and rnn.norm is None), None)
    if gated is None or plain is None:
        raise ValueError("the study of a demo must train a Phased LSTM and a plain LSTM, got others.")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = table("", "way", "updates of a unit", "us per event")
        with torch.inference_mode():
            for name, share, call in contestants(gated, plain, events):
                rows.add_row(name, f"{share:.1%} of the events", f"{1e6 * seconds(call):.2f}")
        console.print(rows)
    finally:
        torch.set_num_threads(before)


def layer(run: Run, results: Path) -> Any:
    """The recurrent layer of a trained network."""
    return next(module for module in trained(run, results).modules() if isinstance(module, PhasedRNN | Baseline))


def contestants(gated: PhasedRNN, plain: Baseline, events: Events) -> list[tuple[str, float, Callable[[], Any]]]:
    """What is timed: a name, the mean share of events that update a unit, and a function that processes all events."""
    opened = float(updates(gated, torch.from_numpy(events.time)).double().mean()) / len(events.time)
    live = Stream(gated)

    def push_all() -> None:
        live.reset()
        for x, t in zip(events.x, events.time, strict=True):
            live.push(x, t)

    def run_all() -> None:
        live.reset()
        live.run(events.x, events.time)

    rows = torch.from_numpy(np.concatenate([events.x, events.time[:, None]], axis=1).astype(np.float32))
    return [
        ("Phased LSTM, Stream.push: one call per event", opened, push_all),
        ("LSTM, nn.LSTMCell: one call per event", 1.0, cell(plain.lstm, rows)),
        ("Phased LSTM, Stream.run: all in one call", opened, run_all),
        ("LSTM, nn.LSTM: all in one call", 1.0, lambda: plain.lstm(rows)),
    ]


def seconds(run: Callable[[], Any]) -> float:
    """Seconds per event: the best of three."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best / EVENTS


def cell(lstm: torch.nn.LSTM, events: Tensor) -> Callable[[], None]:
    """A function that calls an LSTMCell with the same weights for every event."""
    made = torch.nn.LSTMCell(lstm.input_size, lstm.hidden_size).eval()
    made.load_state_dict({name: getattr(lstm, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")})

    def run() -> None:
        state = torch.zeros(1, lstm.hidden_size), torch.zeros(1, lstm.hidden_size)
        for event in events.unsqueeze(1):
            state = made(event, state)

    return run


def me() -> str:
    """The name of this command, as it can be typed."""
    return "phased" if shutil.which("phased") else sys.argv[0]
