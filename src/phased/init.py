"""Where periods, shifts and open ratios start: laws to draw them from, or values set by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from phased import check

Law = Callable[[int], Tensor]
"""Given a number of units, one float64 value for each, drawn from torch's global generator.

The laws here draw on the CPU, whatever torch's default device is: one seed gives the same units everywhere, on meta too.
"""
Values = float | Law | Tensor
"""One number for all units, a law, or a tensor with one value per unit."""


@dataclass(frozen=True)
class Constant:
    """The same value for every unit."""

    value: float

    def __call__(self, size: int) -> Tensor:
        """The value, once for each unit."""
        return torch.full((size,), self.value, dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check.interval("Uniform", self.low, self.high)

    def __call__(self, size: int) -> Tensor:
        """One draw for each unit."""
        return self.low + (self.high - self.low) * torch.rand(size, dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class LogUniform:
    """exp(U(log low, log high)): every octave as likely as the next. The paper's exp(U(a, b)) is LogUniform(e**a, e**b)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check.interval("LogUniform", self.low, self.high, positive=True)

    def __call__(self, size: int) -> Tensor:
        """One draw for each unit."""
        return Uniform(math.log(self.low), math.log(self.high))(size).exp()


def aligned(interval: float, start: float = 0.0, ratio_on: float = 0.05) -> dict[str, float | bool]:
    """Settings for a layer whose gates are fully open at a sensor's samples, start + n * interval, and not learned.

    Use as `PhasedLSTM(..., **aligned(interval=40, start=0))`: half the open time lies before a sample, half after it.
    """
    check.number("interval", interval, low=0.0, low_open=True)
    check.number("start", start)
    check.number("ratio_on", ratio_on, low=0.0, low_open=True, high=1.0)
    return {
        "period": interval,
        "shift": start - ratio_on * interval / 2,
        "ratio_on": ratio_on,
        "learn_period": False,
        "learn_shift": False,
        "learn_ratio_on": False,
    }


def draw(values: Values, size: int, name: str) -> Tensor:
    """One float64 value for each unit, from whichever way the user gave them, on the CPU; on meta if the user's are."""
    if isinstance(values, Tensor) or callable(values):
        given = check.one_per_unit(values if isinstance(values, Tensor) else values(size), size, name).detach()
        return given.to("meta" if given.is_meta else "cpu", torch.float64, copy=True)
    check.number(name, values)
    return Constant(float(values))(size)
