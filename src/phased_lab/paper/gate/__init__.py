"""Figure 2: the openness of time gates, and a ramp that passes through them into the cell state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phased.gate import TimeGate
from phased.layer import PhasedLSTM
from phased_lab.paper.by_hand import SATURATED, cell_states, set_gates
from phased_lab.runs.descriptor import Array, Drawn, drawing


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


def animate() -> Drawn:
    """Events that are pushed into a layer."""
    from phased_lab.paper.gate import moving

    loop = moving.run()
    return Drawn({"gates.svg": moving.draw(loop)}, f"{loop.opened.sum()} of {loop.opened.size} updates were computed.")


@drawing(
    "Time gates",
    number="Fig. 2",
    place=20,
    about="Figure 2: when gates open, and a ramp flowing through them into the cell state",
    animate=animate,
)
def gate() -> Drawn:
    """Both halves of Figure 2."""
    from phased_lab.paper.gate.figure import draw_gate

    ramp = run_ramp(Ramp())
    changed = (np.diff(ramp.cell, axis=0) != 0).mean()
    found = f"The cells followed the ramp at {changed:.1%} of the steps and did not change at all others."
    return Drawn({"gate": draw_gate(run_rhythm(Rhythm()), ramp)}, found)
