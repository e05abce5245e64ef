"""Figure 2: the openness of time gates, and a ramp that passes through them into the cell state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from phased import pictures
from phased.gate import TimeGate
from phased.layer import PhasedLSTM
from phased_lab.paper import moving_gates
from phased_lab.paper.by_hand import SATURATED, cell_states, set_gates
from phased_lab.report.openness import bends
from phased_lab.runs.descriptor import Array, Drawn, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Figure 2a: three units, each with its own period and shift, in ms. Their open ratio is four times the paper's 0.05, so that both
# slopes of a triangle can be seen.
OWN_PERIODS, OWN_SHIFTS, WIDE = (24.0, 40.0, 64.0), (6.0, 22.0, 38.0), 0.2
# Figure 2b: units that differ only in their period, in ms. Their input is a ramp.
PERIODS, SHIFT, RATIO_ON = (20.0, 60.0, 140.0), 10.0, 0.05
HEIGHT = 0.1  # the end of the ramp. Up to here tanh is linear to 0.4 %, so the candidate is the input.


class RhythmTrace(NamedTuple):
    """Time (T,) in milliseconds and the openness of every unit (T, H)."""

    time: Array
    openness: Array


class RampTrace(NamedTuple):
    """Time (T,) in milliseconds, the ramp (T,), and openness and cell state of every unit, (T, H)."""

    time: Array
    ramp: Array
    openness: Array
    cell: Array


def run_rhythm() -> RhythmTrace:
    """Eq. 6 over time, for each unit."""
    time = torch.linspace(0.0, 160.0, 1601, dtype=torch.float64)
    period, shift = torch.tensor((OWN_PERIODS, OWN_SHIFTS), dtype=torch.float64)
    gate = TimeGate(period, shift, torch.full_like(period, WIDE))
    return RhythmTrace(time.numpy(), gate(time).numpy())


def run_ramp() -> RampTrace:
    """A ramp through a layer whose proposal is its input: input gate 1, forget gate 0, candidate tanh(x)."""
    period = torch.tensor(PERIODS, dtype=torch.float64)
    rnn = PhasedLSTM(1, len(period), period=period, shift=SHIFT, ratio_on=RATIO_ON, dtype=torch.float64).eval()
    set_gates(rnn, i=SATURATED, f=-SATURATED, o=SATURATED, x=1.0)
    time = torch.linspace(0.0, 400.0, 1601, dtype=torch.float64)
    ramp = HEIGHT * time / time[-1]
    zeros = torch.zeros(1, len(period), dtype=torch.float64)
    # [1:]: the state at time j is the one after the event at time j.
    cell = cell_states(rnn, (zeros, zeros), ramp[:, None], time)[1:]
    return RampTrace(time.numpy(), ramp.numpy(), rnn.gates()[0](time).detach().numpy(), cell)


def draw_gate(rhythm: RhythmTrace, ramp: RampTrace) -> Figure:
    """Figure 2: (a) the openness of three gates, with tau, s and r_on; (b) input, openness and cell state over a ramp."""
    figure: Figure = pictures.figure(3.4)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.0, 1.12), wspace=0.05)[0]
    _draw_rhythm(left.subplots(), rhythm)
    x_axes, k_axes, c_axes = right.subplots(3, 1, sharex=True, height_ratios=(1.0, 1.5, 2.0))
    _draw_ramp(x_axes, k_axes, c_axes, ramp)
    return figure


def _draw_rhythm(axes: Axes, rhythm: RhythmTrace) -> None:
    feet = _stack(axes, rhythm.time, rhythm.openness, spacing=1.7)
    tau, s = OWN_PERIODS[-1], OWN_SHIFTS[-1]
    edges = (0.0, s, s + tau, s + tau + WIDE * tau)
    for start, end, label in zip(edges, edges[1:], ("$s$", r"$\tau$", r"$r_{on}\,\tau$"), strict=False):
        pictures.distance(axes, start, end, -0.4, label)
        pictures.drop_line(axes, end, -0.4, 0.0)
    axes.set_xlim(0.0, rhythm.time[-1])
    axes.set_ylim(-1.1, feet[0] + 1.1)
    axes.set_yticks([tick for foot in feet for tick in (foot, foot + 1)], ["0", "1"] * len(feet))
    axes.set_ylabel("openness $k$ of three units")
    axes.set_xlabel("time (ms)")
    pictures.panel(axes, "a", "Each unit opens in its own rhythm")


def _draw_ramp(x_axes: Axes, k_axes: Axes, c_axes: Axes, ramp: RampTrace) -> None:
    x_axes.plot(ramp.time, ramp.ramp, color=pictures.INK)
    feet = _stack(k_axes, ramp.time, ramp.openness, spacing=1.35)
    c_axes.plot(ramp.time, ramp.ramp, color=pictures.FAINT, linewidth=2.6)
    for c, colour in zip(ramp.cell.T, pictures.UNITS, strict=True):
        c_axes.plot(ramp.time, c, color=colour)
    c_axes.set_xlim(0.0, ramp.time[-1])
    middle = len(ramp.time) // 2
    c_axes.annotate(
        "input",
        (ramp.time[middle], ramp.ramp[middle]),
        xytext=(-8, 6),
        textcoords="offset points",
        color=pictures.QUIET,
        ha="right",
    )
    c_axes.text(ramp.time[-1], 0.0, f"$r_{{on}}$ = {RATIO_ON:g}, same $s$", color=pictures.QUIET, ha="right")
    pictures.end_labels(k_axes, [foot + 0.4 for foot in feet], [rf"$\tau$ = {tau:g} ms" for tau in PERIODS], pictures.UNITS)
    k_axes.set_yticks([])
    k_axes.spines["left"].set_visible(False)
    k_axes.set_ylabel("gate $k$", labelpad=18)
    for axes, name in ((x_axes, "input $x$"), (c_axes, "cell $c$")):
        axes.set_ylabel(name)
        axes.set_yticks([0.0, HEIGHT])
        axes.set_ylim(-0.06 * HEIGHT, 1.06 * HEIGHT)
    c_axes.set_xlabel("time (ms)")
    pictures.panel(x_axes, "b", "An open gate lets the input into the cell")


def _stack(axes: Axes, time: Array, openness: Array, spacing: float) -> list[float]:
    """Draw the openness of each unit in its own row, the first on top; returns the height of each row's baseline."""
    feet = [spacing * row for row in reversed(range(openness.shape[1]))]
    for foot, k, colour in zip(feet, openness.T, pictures.UNITS, strict=True):
        corner, height = bends(time, k)  # which keeps the SVG small
        axes.fill_between(corner, foot, foot + height, color=colour, alpha=0.15, linewidth=0)
        axes.plot(corner, foot + height, color=colour, linewidth=1.1)
    axes.spines["left"].set_visible(False)
    return feet


def animate() -> Drawn:
    """Events that are pushed into a layer."""
    loop = moving_gates.run()
    return Drawn({"gates.svg": moving_gates.draw(loop)}, f"{loop.opened.sum()} of {loop.opened.size} updates were computed.")


@drawing(
    "Time gates",
    number="Fig. 2",
    place=20,
    about="Figure 2: when gates open, and a ramp flowing through them into the cell state",
    animate=animate,
)
def gate() -> Drawn:
    """Both halves of Figure 2."""
    ramp = run_ramp()
    changed = (np.diff(ramp.cell, axis=0) != 0).mean()
    found = f"The cells followed the ramp at {changed:.1%} of the steps and did not change at all others."
    return Drawn({"gate": draw_gate(run_rhythm(), ramp)}, found)
