"""Figure 2, computed and drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phased.gate import TimeGate
from phased.layer import PhasedLSTM
from phased.pictures.annotate import distance, drop_line, end_labels, panel
from phased.pictures.style import FAINT, INK, QUIET, UNITS, WIDTH
from phased_lab.paper.by_hand import SATURATED, cell_states, set_gates
from phased_lab.runs.descriptor import Array


@dataclass(frozen=True)
class Rhythm:
    """Figure 2a: three units, each with its own period and shift; times in milliseconds."""

    period: tuple[float, ...] = (24.0, 40.0, 64.0)
    shift: tuple[float, ...] = (6.0, 22.0, 38.0)
    # Four times the paper's 0.05, so that both slopes of a triangle can be seen.
    ratio_on: float = 0.2
    duration: float = 160.0
    interval: float = 0.1


@dataclass(frozen=True)
class Ramp:
    """Figure 2b: a ramp as the input of units that differ only in their period; times in milliseconds."""

    period: tuple[float, ...] = (20.0, 60.0, 140.0)
    shift: float = 10.0
    ratio_on: float = 0.05
    duration: float = 400.0
    interval: float = 0.25
    # The end of the ramp. Up to here tanh is linear to 0.4 %, so the candidate is the input.
    height: float = 0.1


@dataclass(frozen=True)
class RhythmTrace:
    """Time (T,) in milliseconds and the openness of every unit (T, H)."""

    numbers: Rhythm
    time: Array
    openness: Array


@dataclass(frozen=True)
class RampTrace:
    """Time (T,) in milliseconds, the ramp (T,), and openness and cell state of every unit, (T, H)."""

    numbers: Ramp
    time: Array
    ramp: Array
    openness: Array
    cell: Array


def run_rhythm(numbers: Rhythm) -> RhythmTrace:
    """Eq. 6 over time, for each unit."""
    time = clock(numbers)
    period, shift = torch.tensor((numbers.period, numbers.shift), dtype=torch.float64)
    gate = TimeGate(period, shift, torch.full_like(period, numbers.ratio_on))
    return RhythmTrace(numbers, time.numpy(), gate(time).numpy())


def run_ramp(numbers: Ramp) -> RampTrace:
    """A ramp through a layer whose proposal is its input: input gate 1, forget gate 0, candidate tanh(x)."""
    period = torch.tensor(numbers.period, dtype=torch.float64)
    gates: dict[str, Any] = {"period": period, "shift": numbers.shift, "ratio_on": numbers.ratio_on}
    rnn = PhasedLSTM(1, len(period), **gates, dtype=torch.float64).eval()
    set_gates(rnn, i=SATURATED, f=-SATURATED, o=SATURATED, x=1.0)
    time = clock(numbers)
    ramp = numbers.height * time / numbers.duration
    zeros = torch.zeros(1, len(period), dtype=torch.float64)
    # [1:]: the state at time j is the one after the event at time j.
    cell = cell_states(rnn, (zeros, zeros), ramp[:, None], time)[1:]
    return RampTrace(numbers, time.numpy(), ramp.numpy(), rnn.gates()[0](time).detach().numpy(), cell)


def clock(numbers: Rhythm | Ramp) -> torch.Tensor:
    """Times from 0 to the duration, both included."""
    steps = round(numbers.duration / numbers.interval)
    return torch.linspace(0.0, numbers.duration, steps + 1, dtype=torch.float64)


def draw_gate(rhythm: RhythmTrace, ramp: RampTrace) -> Figure:
    """Figure 2: (a) the openness of three gates, with tau, s and r_on; (b) input, openness and cell state over a ramp."""
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.0, 1.12), wspace=0.05)[0]
    _draw_rhythm(left.subplots(), rhythm)
    x_axes, k_axes, c_axes = right.subplots(3, 1, sharex=True, height_ratios=(1.0, 1.5, 2.0))
    _draw_ramp(x_axes, k_axes, c_axes, ramp)
    return figure


def _draw_rhythm(axes: Axes, rhythm: RhythmTrace) -> None:
    numbers = rhythm.numbers
    feet = _stack(axes, rhythm.time, rhythm.openness, spacing=1.7)
    tau, s, r_on = numbers.period[-1], numbers.shift[-1], numbers.ratio_on
    edges = (0.0, s, s + tau, s + tau + r_on * tau)
    for start, end, label in zip(edges, edges[1:], ("$s$", r"$\tau$", r"$r_{on}\,\tau$"), strict=False):
        distance(axes, start, end, -0.4, label)
        drop_line(axes, end, -0.4, 0.0)
    axes.set_xlim(0.0, numbers.duration)
    axes.set_ylim(-1.1, feet[0] + 1.1)
    axes.set_yticks([tick for foot in feet for tick in (foot, foot + 1)], ["0", "1"] * len(feet))
    axes.set_ylabel("openness $k$ of three units")
    axes.set_xlabel("time (ms)")
    panel(axes, "a", "Each unit opens in its own rhythm")


def _draw_ramp(x_axes: Axes, k_axes: Axes, c_axes: Axes, ramp: RampTrace) -> None:
    numbers = ramp.numbers
    x_axes.plot(ramp.time, ramp.ramp, color=INK)
    feet = _stack(k_axes, ramp.time, ramp.openness, spacing=1.35)
    c_axes.plot(ramp.time, ramp.ramp, color=FAINT, linewidth=2.6)
    for c, colour in zip(ramp.cell.T, UNITS, strict=True):
        c_axes.plot(ramp.time, c, color=colour)
    c_axes.set_xlim(0.0, numbers.duration)
    middle = len(ramp.time) // 2
    c_axes.annotate(
        "input", (ramp.time[middle], ramp.ramp[middle]), xytext=(-8, 6), textcoords="offset points", color=QUIET, ha="right"
    )
    c_axes.text(numbers.duration, 0.0, f"$r_{{on}}$ = {numbers.ratio_on:g}, same $s$", color=QUIET, ha="right")
    end_labels(k_axes, [foot + 0.4 for foot in feet], [rf"$\tau$ = {tau:g} ms" for tau in numbers.period], UNITS)
    k_axes.set_yticks([])
    k_axes.spines["left"].set_visible(False)
    k_axes.set_ylabel("gate $k$", labelpad=18)
    for axes, name in ((x_axes, "input $x$"), (c_axes, "cell $c$")):
        axes.set_ylabel(name)
        axes.set_yticks([0.0, numbers.height])
        axes.set_ylim(-0.06 * numbers.height, 1.06 * numbers.height)
    c_axes.set_xlabel("time (ms)")
    panel(x_axes, "b", "An open gate lets the input into the cell")


def _stack(axes: Axes, time: Array, openness: Array, spacing: float) -> list[float]:
    """Draw the openness of each unit in its own row, the first on top; returns the height of each row's baseline."""
    feet = [spacing * row for row in reversed(range(openness.shape[1]))]
    for foot, k, colour in zip(feet, openness.T, UNITS, strict=True):
        # Only the points where the slope changes, which keeps the SVG small.
        corner = np.r_[True, np.abs(np.diff(k, n=2)) > 1e-9, True]
        axes.fill_between(time[corner], foot, foot + k[corner], color=colour, alpha=0.15, linewidth=0)
        axes.plot(time[corner], foot + k[corner], color=colour, linewidth=1.1)
    axes.spines["left"].set_visible(False)
    return feet
