"""Eq. 11: a memory decays with every update, so a unit that is closed most of the time keeps it much longer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from phased import pictures
from phased.cost import updates
from phased.layer import PhasedLSTM
from phased_lab.paper.by_hand import SATURATED, cell_states, set_gates
from phased_lab.runs.descriptor import Array, Drawn, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STEPS = 2300  # of 1 ms, with zero input
FORGOTTEN = 0.01  # epsilon: the share of the memory that each update loses
PERIODS, RATIO_ON = (40.0, 300.0, 1500.0), 0.05  # of the time gates, periods in ms


@dataclass(frozen=True)
class Decay:
    """The memory left after n steps of 1 ms, n = 0 ... steps, starting from 1."""

    lstm: Array  # (steps + 1,)
    phased: Array  # (steps + 1, H)
    openness: Array  # of the steps after time 0, (steps, H)
    updates: NDArray[np.int64]  # the number of steps at which each unit was open, (H,)

    @property
    def closed_form(self) -> Array:
        """Eq. 11, (steps + 1,)."""
        return np.asarray((1 - FORGOTTEN) ** np.arange(STEPS + 1.0))


def run() -> Decay:
    """The decay of a cell state of 1 in an LSTM and in a Phased LSTM with the same weights.

    For any input i = 0 and f = 1 - epsilon, the setting of Eq. 11. The time gates have just closed at time 0, when the memory was
    written.
    """
    units, time = len(PERIODS), torch.arange(1, STEPS + 1, dtype=torch.float64)
    lstm = torch.nn.LSTM(1, units, dtype=torch.float64).eval()
    set_gates(lstm, i=-SATURATED, f=math.log((1 - FORGOTTEN) / FORGOTTEN), o=0.0)
    period = torch.tensor(PERIODS, dtype=torch.float64)
    # Half a step earlier, so that no step is on the edge of an open phase, where the result would depend on rounding.
    shift = -RATIO_ON * period - 0.5
    rnn = PhasedLSTM.from_lstm(lstm, period=period, shift=shift, ratio_on=RATIO_ON).eval()
    nothing = torch.zeros(STEPS, 1, dtype=torch.float64)
    start = (torch.zeros(1, units, dtype=torch.float64), torch.ones(1, units, dtype=torch.float64))
    return Decay(
        lstm=cell_states(lstm, start, nothing)[:, 0],
        phased=cell_states(rnn, start, nothing, time),
        openness=rnn.gates()[0](time).detach().numpy(),
        updates=updates(rnn, time)[0].numpy(),
    )


def draw_memory(decay: Decay) -> Figure:
    """Eq. 11: what is left of a memory over time, in an LSTM and behind three time gates."""
    time = np.arange(STEPS + 1)
    figure: Figure = pictures.figure(3.0)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlim(1, STEPS)
    axes.set_ylim(0.0, 1.04)
    axes.plot(time[1:], decay.lstm[1:], color=pictures.INK)
    some = np.unique(np.geomspace(1, STEPS, 30).astype(int))
    axes.plot(
        time[some],
        decay.closed_form[some],
        "o",
        color=pictures.INK,
        markersize=3.4,
        markerfacecolor="white",
        markeredgewidth=0.8,
        clip_on=False,
        zorder=3,
    )
    for c, colour in zip(decay.phased.T, pictures.UNITS, strict=True):
        axes.plot(time[1:], c[1:], color=colour)
    ends = list(decay.phased[-1])
    names = [rf"$\tau$ = {tau:g} ms: {n} updates" for tau, n in zip(PERIODS, decay.updates, strict=True)]
    heading = rf"Phased LSTM, $r_{{on}}$ = {RATIO_ON:g}"
    pictures.end_labels(axes, [*ends, max(ends) + 0.085], [*names, heading], [*pictures.UNITS, pictures.INK])
    halfway = int(np.argmax(decay.lstm < 0.6))
    axes.annotate(
        f"LSTM: {STEPS} updates\n" rf"circles: $(1-\epsilon)^n$, $\epsilon$ = {FORGOTTEN:g}",
        (time[halfway], decay.lstm[halfway]),
        xytext=(-12, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        linespacing=1.6,
    )
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("time (ms), one step every millisecond")
    axes.set_ylabel("memory left, $c_n / c_0$")
    axes.set_title("A memory fades with every update, and a closed gate makes none")
    return figure


@drawing(
    "Memory behind a closed gate",
    number="Eq. 11",
    place=21,
    about="Eq. 11: memory kept by a closed gate against an LSTM's decay",
)
def memory() -> Drawn:
    """The decay of a memory, in an LSTM and behind three time gates."""
    decay = run()
    kept, counts = decay.phased[-1], decay.updates
    return Drawn(
        {"memory": draw_memory(decay)},
        f"After {STEPS} steps the LSTM has {decay.lstm[-1]:.0e} of its memory left, the Phased LSTM's units "
        f"{kept.min():.2f} to {kept.max():.2f}: they were open at {counts.min()} to {counts.max()} of the steps.",
    )
