"""Drawing the decay of a memory."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from phased.pictures.annotate import end_labels
from phased.pictures.style import INK, UNITS, WIDTH
from phased_lab.paper.memory.compute import Decay


def draw_memory(decay: Decay) -> Figure:
    """Eq. 11: what is left of a memory over time, in an LSTM and behind three time gates."""
    numbers = decay.numbers
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlim(1, numbers.steps)
    axes.set_ylim(0.0, 1.04)
    axes.plot(decay.time[1:], decay.lstm[1:], color=INK)
    some = np.unique(np.geomspace(1, numbers.steps, 30).astype(int))
    axes.plot(
        decay.time[some],
        decay.closed_form[some],
        "o",
        color=INK,
        markersize=3.4,
        markerfacecolor="white",
        markeredgewidth=0.8,
        clip_on=False,
        zorder=3,
    )
    for c, colour in zip(decay.phased.T, UNITS, strict=True):
        axes.plot(decay.time[1:], c[1:], color=colour)
    ends = list(decay.phased[-1])
    names = [rf"$\tau$ = {tau:g} ms: {n} updates" for tau, n in zip(numbers.period, decay.updates, strict=True)]
    heading = rf"Phased LSTM, $r_{{on}}$ = {numbers.ratio_on:g}"
    end_labels(axes, [*ends, max(ends) + 0.085], [*names, heading], [*UNITS, INK])
    halfway = int(np.argmax(decay.lstm < 0.6))
    axes.annotate(
        f"LSTM: {numbers.steps} updates\n" rf"circles: $(1-\epsilon)^n$, $\epsilon$ = {numbers.forgotten:g}",
        (decay.time[halfway], decay.lstm[halfway]),
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
