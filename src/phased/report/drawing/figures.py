"""The figures: each function takes an experiment's result and draws it; `save_*` also writes the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from phased.experiments import gate, memory, schedule
from phased.experiments.trace import Array
from phased.report.drawing.annotate import distance, drop_line, end_labels, panel
from phased.report.save import save
from phased.report.style import FAINT, INK, QUIET, UNITS, WIDTH, styled


def save_gate(result: gate.Result, folder: Path) -> list[Path]:
    """Draw Figure 2 and write it as `gate.png` and `gate.svg`."""
    with styled():
        return save(draw_gate(result), folder, "gate")


def save_memory(result: memory.Result, folder: Path) -> list[Path]:
    """Draw Eq. 11 and write it as `memory.png` and `memory.svg`."""
    with styled():
        return save(draw_memory(result), folder, "memory")


def save_schedule(result: schedule.Result, folder: Path) -> list[Path]:
    """Draw a schedule and write it as `schedule.png` and `schedule.svg`."""
    with styled():
        return save(draw_schedule(result), folder, "schedule")


def draw_schedule(result: schedule.Result) -> Figure:
    """Who is open when: a mark for each open event, darker the further it is open; all that is blank is never computed."""
    settings = result.settings
    figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
    axes = figure.subplots()
    image = np.zeros((settings.units, settings.steps))
    image[result.unit, result.step] = 0.35 + 0.65 * result.openness
    axes.imshow(image, cmap="Reds", aspect="auto", origin="lower", interpolation="nearest", vmin=0.0, vmax=1.0)
    axes.set_xlabel("step")
    axes.set_ylabel("unit, from short to long period")
    axes.set_title(f"{result.share:.1%} of {settings.units} units x {settings.steps} steps are open: only these are computed")
    return figure


def draw_gate(result: gate.Result) -> Figure:
    """Figure 2: (a) the rhythm of three gates with tau, s and r_on; (b) input, openness and cell state over a ramp."""
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.0, 1.12), wspace=0.05)[0]
    _draw_rhythm(left.subplots(), result)
    x_axes, k_axes, c_axes = right.subplots(3, 1, sharex=True, height_ratios=(1.0, 1.5, 2.0))
    _draw_ramp(x_axes, k_axes, c_axes, result)
    return figure


def _draw_rhythm(axes: Axes, result: gate.Result) -> None:
    settings, rhythm = result.settings.rhythm, result.rhythm
    feet = _stack(axes, rhythm.time, rhythm.openness, spacing=1.7)
    tau, s, r_on = settings.period[-1], settings.shift[-1], settings.ratio_on
    edges = (0.0, s, s + tau, s + tau + r_on * tau)
    for start, end, label in zip(edges, edges[1:], ("$s$", r"$\tau$", r"$r_{on}\,\tau$"), strict=False):
        distance(axes, start, end, -0.4, label)
        drop_line(axes, end, -0.4, 0.0)
    axes.set_xlim(0.0, settings.duration)
    axes.set_ylim(-1.1, feet[0] + 1.1)
    axes.set_yticks([tick for foot in feet for tick in (foot, foot + 1)], ["0", "1"] * len(feet))
    axes.set_ylabel("openness $k$ of three units")
    axes.set_xlabel("time (ms)")
    panel(axes, "a", "Each unit opens in its own rhythm")


def _draw_ramp(x_axes: Axes, k_axes: Axes, c_axes: Axes, result: gate.Result) -> None:
    settings, ramp = result.settings.ramp, result.ramp
    x_axes.plot(ramp.time, ramp.ramp, color=INK)
    feet = _stack(k_axes, ramp.time, ramp.openness, spacing=1.35)
    c_axes.plot(ramp.time, ramp.ramp, color=FAINT, linewidth=2.6)
    for c, colour in zip(ramp.cell.T, UNITS, strict=True):
        c_axes.plot(ramp.time, c, color=colour)
    c_axes.set_xlim(0.0, settings.duration)
    middle = len(ramp.time) // 2
    c_axes.annotate(
        "input", (ramp.time[middle], ramp.ramp[middle]), xytext=(-8, 6), textcoords="offset points", color=QUIET, ha="right"
    )
    c_axes.text(settings.duration, 0.0, f"$r_{{on}}$ = {settings.ratio_on:g}, same $s$", color=QUIET, ha="right")
    end_labels(k_axes, [foot + 0.4 for foot in feet], [rf"$\tau$ = {tau:g} ms" for tau in settings.period], UNITS)
    k_axes.set_yticks([])
    k_axes.spines["left"].set_visible(False)
    k_axes.set_ylabel("gate $k$", labelpad=18)
    for axes, name in ((x_axes, "input $x$"), (c_axes, "cell $c$")):
        axes.set_ylabel(name)
        axes.set_yticks([0.0, settings.height])
        axes.set_ylim(-0.06 * settings.height, 1.06 * settings.height)
    c_axes.set_xlabel("time (ms)")
    panel(x_axes, "b", "An open gate lets the input into the cell")


def _stack(axes: Axes, time: Array, openness: Array, spacing: float) -> list[float]:
    """Draw the openness of each unit in a row of its own, the first on top; returns the height of each row's foot."""
    feet = [spacing * row for row in reversed(range(openness.shape[1]))]
    for foot, k, colour in zip(feet, openness.T, UNITS, strict=True):
        # Only where the line bends: the fewer points, the smaller the SVG.
        corner = np.r_[True, np.abs(np.diff(k, n=2)) > 1e-9, True]
        axes.fill_between(time[corner], foot, foot + k[corner], color=colour, alpha=0.15, linewidth=0)
        axes.plot(time[corner], foot + k[corner], color=colour, linewidth=1.1)
    axes.spines["left"].set_visible(False)
    return feet


def draw_memory(result: memory.Result) -> Figure:
    """Eq. 11: what is left of a memory over time, in an LSTM and behind three time gates."""
    settings = result.settings
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlim(1, settings.steps)
    axes.set_ylim(0.0, 1.04)
    axes.plot(result.time[1:], result.lstm[1:], color=INK)
    some = np.unique(np.geomspace(1, settings.steps, 30).astype(int))
    axes.plot(
        result.time[some],
        result.closed_form[some],
        "o",
        color=INK,
        markersize=3.4,
        markerfacecolor="white",
        markeredgewidth=0.8,
        clip_on=False,
        zorder=3,
    )
    for c, colour in zip(result.phased.T, UNITS, strict=True):
        axes.plot(result.time[1:], c[1:], color=colour)
    ends = list(result.phased[-1])
    names = [rf"$\tau$ = {tau:g} ms: {n} updates" for tau, n in zip(settings.period, result.updates, strict=True)]
    heading = rf"Phased LSTM, $r_{{on}}$ = {settings.ratio_on:g}"
    end_labels(axes, [*ends, max(ends) + 0.085], [*names, heading], [*UNITS, INK])
    halfway = int(np.argmax(result.lstm < 0.6))
    axes.annotate(
        f"LSTM: {settings.steps} updates\n" rf"circles: $(1-\epsilon)^n$, $\epsilon$ = {settings.forgotten:g}",
        (result.time[halfway], result.lstm[halfway]),
        xytext=(-12, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        linespacing=1.6,
    )
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel("time (ms), one step every millisecond")
    axes.set_ylabel("memory left, $c_n / c_0$")
    axes.set_title("A memory fades with every update, and a closed gate makes none")
    return figure
