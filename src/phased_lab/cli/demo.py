"""`phased demo`: trains three networks, streams events through two of them, and makes a page of it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape

from phased import Stream
from phased.cli.errors import print_line
from phased.data.nmnist_file import encode
from phased.files import check_output, write_whole
from phased.layer import PhasedRNN
from phased_lab import pumps
from phased_lab.bench.measure import compare, same_terms
from phased_lab.bench.peers import steps, whole
from phased_lab.bench.stream import pushed, ran
from phased_lab.cli.run import bars, print_failed
from phased_lab.paper import waves
from phased_lab.paper.saccades import of_rings
from phased_lab.report.demo import LABELS, PAGE, save_page
from phased_lab.runs.baselines import Baseline
from phased_lab.runs.descriptor import Events
from phased_lab.runs.run import Run, trained
from phased_lab.runs.sweep import Summary, sweep

EVENTS, SHOWN = 20_000, 60  # streamed, and of the sequence on the page
JOBS = 2


def demo(console: Console, out: Path) -> Summary:
    """Train, stream and draw; prints each step and its result."""
    results, recording = out / "results", out / "digit.bin"
    for file in (out / PAGE, recording, out / pumps.TABLE, out / pumps.LABELS):
        check_output(file)
    runs = waves.demo_runs()
    console.print(f"[bold]1. Three networks[/]: {escape(waves.QUESTION)}", highlight=False)
    with bars(console) as show:
        summary = sweep(runs, results, JOBS, show=show)
    print_failed(console, summary)
    if summary.failed:
        return summary
    records = [summary.records[run.name] for run in runs]
    for record in records:
        label, accuracy = LABELS[record.model], record.curve[-1].test
        console.print(f"  {label:26} {accuracy:6.1%} accuracy, {record.wall:.0f} s", highlight=False)
    console.print("\n[bold]2. Event by event[/] through the trained layers, on one core.", highlight=False)
    layers = {record.model: layer(run, results) for run, record in zip(runs, records, strict=True)}
    speeds = stream(layers["phased"], layers["lstm"], waves.wave(EVENTS))
    for name, each in speeds.items():
        console.print(f"  {name:44} {each:6.2f} µs per event", markup=False, highlight=False)
    page = save_page(waves.QUESTION, waves.wave(SHOWN), records, speeds, out)
    table, labels = pumps.write(out)
    write_whole(recording, encode(of_rings()[0]))
    folder, command = shlex.quote(str(out)), "phased" if shutil.which("phased") else sys.argv[0]
    console.print("\n[bold]3. The page[/]", highlight=False)
    for line in (
        f"  {page.resolve().as_uri()}",
        "\nThe last of these commands takes several minutes. Try next:",
        f"  {command} fit {shlex.quote(str(table))} --labels {shlex.quote(str(labels))} --unit h --out {folder}/pumps",
        f"  {command} classify {shlex.quote(str(recording))}",
        f"  {command} run {records[0].study} --scale quick --out {folder}/results",
    ):
        print_line(console, line)
    return summary


def layer(run: Run, results: Path) -> Any:
    """The recurrent layer of a trained network."""
    return next(module for module in trained(run, results).modules() if isinstance(module, PhasedRNN | Baseline))


def stream(gated: PhasedRNN, plain: Baseline, events: Events) -> dict[str, float]:
    """Time a layer with time gates as a stream, and an LSTM as a cell and as a layer. Returns microseconds per event."""
    live, lstm = Stream(gated), plain.lstm
    rows = torch.from_numpy(np.concatenate([events.x, events.time[:, None]], axis=1).astype(np.float32))
    contestants = {
        "PhasedLSTM, Stream.push: one call per event": pushed(live, events.x, events.time),
        "nn.LSTMCell: one call per event": steps(lstm, rows),
        "PhasedLSTM, Stream.run: all in one call": ran(live, events.x, events.time),
        "nn.LSTM: all in one call": whole(lstm, rows),
    }
    with same_terms(threads=1):
        return {name: 1e6 * timing.median / EVENTS for name, timing in compare(contestants, rounds=3).items()}
