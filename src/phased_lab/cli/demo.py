"""`phased demo`: trains three networks, streams events through two of them, and makes a page of it."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from phased import Stream
from phased.data.camera import simulate
from phased.data.native import encode
from phased.files import check_output, write_whole
from phased.layer import PhasedRNN
from phased_lab import pumps
from phased_lab.cli.train import bars, print_failed
from phased_lab.report.html.demo import PAGE, Speed, label, save_page
from phased_lab.runs import catalogue
from phased_lab.runs.baselines import Baseline
from phased_lab.runs.descriptor import Demo, Events
from phased_lab.runs.run import Run, trained
from phased_lab.runs.sweep import Summary, sweep

EVENTS = 20_000
JOBS = 2


def demo(console: Console, out: Path) -> Summary:
    """Train, stream and draw; prints each step and its result."""
    results, recording = out / "results", out / "digit.bin"
    for file in (out / PAGE, *pumps.paths(out), recording):
        check_output(file)
    shown = chosen()
    runs = shown.runs()
    console.print(f"[bold]1. Three networks[/]: {escape(shown.question)}", highlight=False)
    with bars(console) as show:
        summary = sweep(runs, results, JOBS, show=show)
    print_failed(console, summary)
    if summary.failed:
        return summary
    records = [summary.records[run.name] for run in runs]
    for record in records:
        console.print(f"  {label(record):26} {record.curve[-1].test:6.1%} accuracy, {record.wall:.0f} s", highlight=False)
    console.print("\n[bold]2. Event by event[/] through the trained layers, on one core.", highlight=False)
    layers = [layer(run, results) for run in runs]
    gated = next(rnn for rnn in layers if isinstance(rnn, PhasedRNN))
    plain = next(rnn for rnn in layers if isinstance(rnn, Baseline) and rnn.norm is None)
    speeds = stream(console, gated, plain, shown.events(EVENTS))
    page = save_page(shown, records, gated, speeds, out)
    table, labels = pumps.write(out)
    write_whole(recording, encode(simulate(one())[0]))
    folder, command = shlex.quote(str(out)), me()
    console.print("\n[bold]3. The page[/]", highlight=False)
    for line in (
        f"  {page}",
        "\nTry next:",
        f"  {command} fit {shlex.quote(str(table))} --labels {shlex.quote(str(labels))} --unit h --out {folder}/pumps",
        f"  {command} classify {shlex.quote(str(recording))}",
        f"  {command} run {records[0].study} --scale quick --out {folder}/results",
    ):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    return summary


def one() -> Tensor:
    """A handwritten 1, (1, 28, 28)."""
    digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    digit[0, 4:24, 13:15] = 255
    return digit


def chosen() -> Demo:
    """The demo of the first experiment that has one."""
    return next(experiment.demo for experiment in catalogue.experiments().values() if experiment.demo is not None)


def stream(console: Console, gated: PhasedRNN, plain: Baseline, events: Events) -> list[Speed]:
    """Time each event in the trained layer with time gates as a stream, and in a trained LSTM as a cell and as a layer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            speeds = [Speed(name, ours, 1e6 * seconds(call)) for name, ours, call in contestants(gated, plain, events)]
    finally:
        torch.set_num_threads(before)
    for speed in speeds:
        console.print(f"  {speed.label:44} {speed.microseconds:6.2f} µs per event", markup=False, highlight=False)
    return speeds


def layer(run: Run, results: Path) -> Any:
    """The recurrent layer of a trained network."""
    return next(module for module in trained(run, results).modules() if isinstance(module, PhasedRNN | Baseline))


def contestants(gated: PhasedRNN, plain: Baseline, events: Events) -> list[tuple[str, bool, Callable[[], Any]]]:
    """What is timed: a name, whether it is ours, and a function that processes all events."""
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
        ("PhasedLSTM, Stream.push: one call per event", True, push_all),
        ("nn.LSTMCell: one call per event", False, cell(plain.lstm, rows)),
        ("PhasedLSTM, Stream.run: all in one call", True, run_all),
        ("nn.LSTM: all in one call", False, lambda: plain.lstm(rows)),
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
