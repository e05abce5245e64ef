"""The time gate: the phase of a unit in its cycle, and how far the unit is open (Eq. 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Bounds of a period and an open ratio, wherever an optimiser moves them: docs/decisions.md, "The parametrisation of the gate".
SHORTEST_PERIOD, LONGEST_PERIOD = 1e-12, 1e300
SMALLEST_RATIO = 1e-6


def phase(time: Tensor, period: Tensor, shift: Tensor) -> Tensor:
    """Position in the cycle, in [0, 1) (Eq. 6, left); the arguments broadcast, the result is float64.

    Whole periods are subtracted from time and shift first. Those remainders are exact, so the phase is as exact as its arguments,
    however far from zero they are: float64 UNIX seconds, or integer microseconds up to 2**53.
    The derivatives are those of (t - s) / tau, exact: -1 / tau for s and -(t - s) / tau**2 for tau.
    """
    tau = period.to(torch.float64)
    cycles = (torch.remainder(time.to(torch.float64), tau) - torch.remainder(shift.to(torch.float64), tau)) / tau
    phi = cycles + (cycles < 0).to(cycles.dtype)  # both remainders are in [0, tau), so cycles is in [-1, 1]
    return phi - (phi >= 1).to(phi.dtype)  # just below a whole cycle it may round up to 1, which is the start of the next


def triangle(phi: Tensor, ratio_on: Tensor) -> Tensor:
    """The openness of the paper's gate in its open phase: it rises from 0 to 1, and falls back.

    The paper assigns the peak, phi = r_on / 2, to neither slope: it is 1 by continuity, and we assign it to the falling one.
    """
    rise = 2 * phi / ratio_on
    return torch.where(phi < ratio_on / 2, rise, 2 - rise)


def triangle_slopes(phi: Tensor, ratio_on: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives of `triangle` to phi and to r_on."""
    sign = torch.where(phi < ratio_on / 2, 1.0, -1.0).to(phi.dtype)
    return sign * 2 / ratio_on, -sign * 2 * phi / ratio_on**2


def square(phi: Tensor, ratio_on: Tensor) -> Tensor:
    """The openness of a gate that is fully open in its open phase."""
    rise = 2 * phi / ratio_on
    return (rise - rise + 1).detach()  # 1, or NaN


def square_slopes(phi: Tensor, ratio_on: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives of `square` to phi and to r_on: zeros."""
    return torch.zeros_like(phi), torch.zeros_like(phi)


class Shape(NamedTuple):
    """A shape of the open phase, phi < r_on: openness from phi and r_on, and its derivatives to both."""

    openness: Callable[[Tensor, Tensor], Tensor]
    slopes: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


SHAPES = {"triangle": Shape(triangle, triangle_slopes), "square": Shape(square, square_slopes)}


def openness(phi: Tensor, ratio_on: Tensor, leak: float = 0.0, shape: str = "triangle") -> Tensor:
    """How far the gate is open, k (Eq. 6, right). Open means phi < r_on; there the leak plays no part.

    A phase or a ratio that is NaN gives NaN.
    """
    return torch.where(phi >= ratio_on, leak * phi, SHAPES[shape].openness(phi, ratio_on))


def slopes(phi: Tensor, ratio_on: Tensor, leak: float = 0.0, shape: str = "triangle") -> tuple[Tensor, Tensor]:
    """The derivatives of `openness` to phi and to r_on, for the backward pass derived by hand."""
    is_open = phi < ratio_on
    to_phi, to_ratio = SHAPES[shape].slopes(phi, ratio_on)
    return torch.where(is_open, to_phi, torch.full_like(phi, leak)), torch.where(is_open, to_ratio, torch.zeros_like(to_ratio))


def bounded(value: Tensor, low: float, high: float) -> Tensor:
    """The value moved into [low, high]. Its gradient passes unchanged, so a value outside can come back."""
    clamped = value.clamp(low, high)
    if not (value.requires_grad and torch.is_grad_enabled()):
        return clamped
    return clamped.detach() + (value - value.detach())  # a zero that has the gradient


class TimeGate(NamedTuple):
    """The gates of one layer's units: period, shift and ratio_on are float64 of one shape, (H,) for a layer."""

    period: Tensor
    shift: Tensor
    ratio_on: Tensor
    leak: float = 0.0
    shape: str = "triangle"

    def phase(self, time: Tensor) -> Tensor:
        """The phase of each unit at its own time, element by element."""
        return phase(time, self.period, self.shift)

    def is_open(self, phi: Tensor) -> Tensor:
        """Whether each unit is open at its own phase. With a leak every unit is, and so is one whose gate is NaN."""
        return torch.ones_like(phi, dtype=torch.bool) if self.leak > 0 else ~(phi >= self.ratio_on)

    def openness(self, phi: Tensor) -> Tensor:
        """The openness of each unit at its own phase, element by element."""
        return openness(phi, self.ratio_on, self.leak, self.shape)

    def __call__(self, time: Tensor) -> Tensor:
        """The openness of every unit at every time, (...) -> (..., H), float64."""
        return self.openness(self.phase(time.unsqueeze(-1)))

    def bounded(self) -> TimeGate:
        """The gate in force: period and ratio_on moved into their bounds."""
        period = bounded(self.period, SHORTEST_PERIOD, LONGEST_PERIOD)
        return self._replace(period=period, ratio_on=bounded(self.ratio_on, SMALLEST_RATIO, 1.0))

    def parameters(self) -> list[Tensor]:
        """Period, shift and ratio_on."""
        return [self.period, self.shift, self.ratio_on]

    def of(self, unit: Tensor) -> TimeGate:
        """The gates of some units, one for each index in `unit`."""
        return self._replace(period=self.period[unit], shift=self.shift[unit], ratio_on=self.ratio_on[unit])

    def gradients(self, time: Tensor, to_k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients to period, shift and ratio_on, given the gradient to k, element by element, in float64."""
        phi = self.phase(time)
        to_phi, to_ratio = slopes(phi, self.ratio_on, self.leak, self.shape)
        to_k = to_k.to(torch.float64)
        to_shift = -to_k * to_phi / self.period
        return to_shift * (time.to(torch.float64) - self.shift) / self.period, to_shift, to_k * to_ratio
