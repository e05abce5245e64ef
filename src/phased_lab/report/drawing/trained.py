"""The gates of a network before and after training, and its open units over time."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phased.pictures.annotate import beside, caption, panel, plain_logarithm
from phased.pictures.style import INK, QUIET, UNITS, WIDTH
from phased_lab.report import names
from phased_lab.report.gates import bends, by_period, is_open, of_units, openness, some_units, three_units
from phased_lab.report.groups import Group
from phased_lab.report.looks import colour as colour_of
from phased_lab.report.looks import machines_note
from phased_lab.runs.record import Gates, Record


def draw_learned(group: Group) -> Figure:
    """Every unit of every seed: its period before and after training, and its open ratio after."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    colour = colour_of(group)
    pairs = [(run.before, run.after) for run in group.records if run.before is not None and run.after is not None]
    before, after = (np.concatenate([np.array(pair[side].period) for pair in pairs]) for side in (0, 1))
    ratio_before, ratio = (np.concatenate([np.array(pair[side].ratio_on) for pair in pairs]) for side in (0, 1))
    unit = group.experiment.clock(group.records[0]).unit

    ends = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
    left.plot(ends, ends, color=QUIET, linewidth=0.8, zorder=1)
    left.annotate("line: unchanged", (0.98, 0.03), xycoords="axes fraction", color=QUIET, ha="right")
    left.scatter(before, after, 6, color=colour, alpha=0.4, linewidth=0, zorder=2)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel(f"period before ({unit})")
    left.set_ylabel(f"period after ({unit})")
    panel(left, "a", "Periods")

    right.axhline(float(ratio_before.mean()), color=QUIET, linewidth=0.8, zorder=1)
    beside(right, float(ratio_before.mean()), f"before: {ratio_before.mean():.3g}", QUIET)
    right.scatter(after, ratio, 6, color=colour, alpha=0.4, linewidth=0, zorder=2)
    right.axhline(float(ratio.mean()), color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=3)
    if abs(ratio.mean() - ratio_before.mean()) > 0.02:
        beside(right, float(ratio.mean()), f"mean: {ratio.mean():.3g}")
    right.set_xscale("log")
    right.set_ylim(0.0, max(0.12, 1.08 * float(ratio.max())))
    right.set_xlabel(f"period after ({unit})")
    right.set_ylabel("open ratio after, $r_{on}$")
    panel(right, "b", "Open ratios")
    plain_logarithm(left.xaxis, left.yaxis, right.xaxis)
    caption(
        figure,
        f"{group.label}, {group.experiment.condition(group.condition)}: a dot for each of {len(after) // len(pairs)} units of "
        f"{names.counted(len(pairs), 'seed')}, {group.scale} scale, {group.epochs} epochs.",
        machines_note(group.records),
    )
    return figure


def draw_raster(group: Group) -> Figure:
    """The gates of a group's first run with gates: three units over time, and all units at the sample times."""
    about, record, gates = group.experiment, *first_gated(group)
    gates = by_period(gates)
    shown = of_units(gates, some_units(gates))
    three = of_units(gates, three_units(gates))
    clock = about.clock(record)
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 2.2))
    _three(top, three.period, openness(three, np.linspace(clock.time[0], clock.time[-1], 4000)), clock.time, clock.unit)
    # The cell of a sample ends halfway to its neighbours.
    middles = (clock.time[1:] + clock.time[:-1]) / 2
    edges = np.concatenate([clock.time[:1], middles, clock.time[-1:]])
    updated = is_open(gates, clock.time)
    shades = np.where(is_open(shown, clock.time), 0.35 + 0.65 * openness(shown, clock.time), 0.0)
    # The axis counts all units, even if fewer rows are drawn.
    rows = np.linspace(0, len(gates.period), len(shown.period) + 1)
    below.pcolormesh(edges, rows, shades.T, cmap="Reds", vmin=0.0, vmax=1.0, rasterized=True)
    below.set_xlabel("step" if clock.unit == "step" else f"time ({clock.unit})")
    below.set_ylabel("unit, from short to long period")
    panel(below, "b", f"{updated.mean():.1%} of {len(gates.period)} units x {len(clock.time)} samples are open")
    caption(
        figure,
        f"{about.label(record.model)}, {about.condition(record.condition)}, seed {record.seed}, "
        f"{record.curve[-1].epoch} epochs, {record.scale} scale.",
        f"The clock is made for this figure: {clock.words}. Darker: further open.",
        machines_note([record]),
    )
    return figure


def first_gated(group: Group) -> tuple[Record, Gates]:
    """The first run of a group with gates, and its gates after training."""
    for record in group.records:
        if record.after is not None:
            return record, record.after
    raise ValueError(f"the group '{group.label}' has no gates to draw. Choose one of a network with time gates.")


def _three(axes: Axes, period: tuple[float, ...], k: np.ndarray, samples: np.ndarray, unit: str) -> None:
    """The openness of three units in rows, the longest period on top; ticks below mark the samples."""
    time = np.linspace(samples[0], samples[-1], len(k))
    for row, colour in enumerate(UNITS):
        foot = 1.35 * row
        t, height = bends(time, k[:, row])
        axes.fill_between(t, foot, foot + height, color=colour, alpha=0.2, linewidth=0)
        axes.plot(t, foot + height, color=colour, linewidth=1.0)
        label = rf"$\tau$ = {names.rounded(period[row])} {unit if unit == 'ms' else 'steps'}"
        beside(axes, foot + 0.4, label, colour)
    axes.plot(samples, np.full(len(samples), -0.35), "|", color=QUIET, markersize=3, markeredgewidth=0.5)
    axes.set_ylim(-0.6, 1.35 * len(UNITS))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(samples[0], samples[-1])
    axes.set_ylabel("gate $k$")
    panel(axes, "a", "Three of its units")
