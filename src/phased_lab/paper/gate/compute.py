"""Figure 2: the openness of time gates, and a ramp that passes through them into the cell state."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from phased.gate import TimeGate
from phased.layer import PhasedLSTM
from phased_lab.paper.handmade import SATURATED, rows, silence
from phased_lab.paper.trace import Array, State, cell_states


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
class Figure2:
    """The settings of both halves of Figure 2."""

    rhythm: Rhythm = field(default_factory=Rhythm)
    ramp: Ramp = field(default_factory=Ramp)


@dataclass(frozen=True)
class RhythmTrace:
    """Time (T,) in milliseconds and the openness of every unit (T, H)."""

    time: Array
    openness: Array


@dataclass(frozen=True)
class RampTrace:
    """Time (T,) in milliseconds, the ramp (T,), and openness and cell state of every unit, (T, H)."""

    time: Array
    ramp: Array
    openness: Array
    cell: Array


@dataclass(frozen=True)
class Traces:
    """Both halves of Figure 2 and their settings."""

    numbers: Figure2
    rhythm: RhythmTrace
    ramp: RampTrace


def run(numbers: Figure2 | None = None) -> Traces:
    """Compute Figure 2."""
    numbers = numbers or Figure2()
    return Traces(numbers, run_rhythm(numbers.rhythm), run_ramp(numbers.ramp))


def run_rhythm(numbers: Rhythm) -> RhythmTrace:
    """Eq. 6 over time, for each unit."""
    time = clock(numbers.duration, numbers.interval)
    period = torch.tensor(numbers.period, dtype=torch.float64)
    shift = torch.tensor(numbers.shift, dtype=torch.float64)
    gate = TimeGate(period, shift, torch.full_like(period, numbers.ratio_on))
    return RhythmTrace(time.numpy(), gate(time).numpy())


def run_ramp(numbers: Ramp) -> RampTrace:
    """A ramp through a layer whose units copy their input while they are open."""
    rnn = copying_layer(numbers)
    time = clock(numbers.duration, numbers.interval)
    ramp = numbers.height * time / numbers.duration
    zeros = torch.zeros(1, len(numbers.period), dtype=torch.float64)

    def advance(j: int, state: State) -> State:
        after: State
        _, after = rnn(ramp[j : j + 1, None], time[j : j + 1], state)
        return after

    # [1:]: the state at time j is the one after the event at time j.
    cell = cell_states(advance, (zeros, zeros), len(time))[1:]
    (gate,) = rnn.gates()
    return RampTrace(time.numpy(), ramp.numpy(), gate(time).detach().numpy(), cell)


def copying_layer(numbers: Ramp) -> PhasedLSTM:
    """A PhasedLSTM whose proposal is its input: input gate 1, forget gate 0, candidate tanh(x), no recurrent weights."""
    units = len(numbers.period)
    rnn = PhasedLSTM(
        1,
        units,
        period=torch.tensor(numbers.period, dtype=torch.float64),
        shift=numbers.shift,
        ratio_on=numbers.ratio_on,
        dtype=torch.float64,
    )
    silence(rnn)
    of = rows(units)
    with torch.no_grad():
        rnn.get_parameter("weight_ih_l0")[of.g] = 1.0
        bias = rnn.get_parameter("bias_ih_l0")
        bias[of.i] = SATURATED
        bias[of.f] = -SATURATED
        bias[of.o] = SATURATED
    return rnn.eval()


def clock(duration: float, interval: float) -> torch.Tensor:
    """Times from 0 to duration, both included."""
    return torch.linspace(0.0, duration, round(duration / interval) + 1, dtype=torch.float64)
