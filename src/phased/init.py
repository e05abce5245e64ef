"""Initial periods, shifts and open ratios: laws to draw them from, or given values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phased import check

FIXED = {"learn_period": False, "learn_shift": False, "learn_ratio_on": False}
"""Options of a layer whose gates are not learned."""
Law = Callable[[int], Tensor]
"""Given a number of units, one float64 value for each, drawn from torch's global generator.

The laws here draw on the CPU, whatever torch's default device is: one seed gives the same units everywhere, on meta too.
"""
Values = float | Law | Tensor
"""One number for all units, a law, or a tensor with one value per unit."""


@dataclass(frozen=True)
class Constant:
    """A law that gives every unit the same value.

    Args:
        value: The value.

    Shape:
        Called with a number of units H: (H,), float64.

    Example:
        >>> from phased import Constant
        >>> Constant(4.0)(3)
        tensor([4., 4., 4.], dtype=torch.float64)
    """

    value: float

    def __call__(self, size: int) -> Tensor:
        """The value, once for each unit."""
        return torch.full((size,), check.as_float(self.value), dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class Uniform:
    """A law that draws uniformly from [low, high), by torch's global generator.

    Args:
        low: The smallest value.
        high: The upper end, not below low.

    Shape:
        Called with a number of units H: (H,), float64, on the CPU.

    Raises:
        TypeError: An end is no number.
        ValueError: An end is not finite, or high is below low.

    Example:
        >>> from phased import Uniform
        >>> values = Uniform(10, 20)(1000)
        >>> bool(((values >= 10) & (values < 20)).all())
        True
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check.interval("Uniform", self.low, self.high)

    def __call__(self, size: int) -> Tensor:
        """One draw for each unit."""
        low, high = float(self.low), float(self.high)
        return low + (high - low) * torch.rand(size, dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class LogUniform:
    """A law that draws from exp(U(log low, log high)), by torch's global generator: every octave is equally likely.

    The paper's exp(U(a, b)) is LogUniform(e**a, e**b).

    Args:
        low: The smallest value, above 0.
        high: The upper end, not below low.

    Shape:
        Called with a number of units H: (H,), float64, on the CPU.

    Raises:
        TypeError: An end is no number.
        ValueError: low is not above 0, an end is not finite, or high is below low.

    Example:
        >>> from phased import LogUniform
        >>> values = LogUniform(1, 100)(10_000)
        >>> bool(((values >= 1) & (values <= 100)).all()), round(float((values < 10).double().mean()), 1)
        (True, 0.5)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check.interval("LogUniform", self.low, self.high, positive=True)

    def __call__(self, size: int) -> Tensor:
        """One draw for each unit."""
        return Uniform(math.log(self.low), math.log(self.high))(size).exp()


def aligned(interval: float, start: float = 0.0, ratio_on: float = 0.05) -> dict[str, float | bool]:
    """Settings for a layer whose gates are fully open at a sensor's samples, start + n * interval, and not learned.

    Half the open time lies before a sample, half after it.

    Args:
        interval: Time between two samples of the sensor.
        start: Time of any sample.
        ratio_on: Part of the interval for which the gates are open, in (0, 1].

    Returns:
        Keyword arguments of `PhasedLSTM` and `PhasedGRU`.

    Raises:
        TypeError: An argument is no number.
        ValueError: interval is not above 0, or ratio_on is not in (0, 1].

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, aligned
        >>> rnn = PhasedLSTM(3, 2, **aligned(interval=40, start=7)).eval()
        >>> rnn.gates()[0](torch.tensor([7.0, 27.0, 47.0])).tolist()
        [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    """
    check.number("interval", interval, low=0.0, low_open=True)
    check.number("start", start)
    check.number("ratio_on", ratio_on, low=0.0, low_open=True, high=1.0)
    interval, start, ratio_on = float(interval), float(start), float(ratio_on)
    return {"period": interval, "shift": start - ratio_on * interval / 2, "ratio_on": ratio_on, **FIXED}


def open_at_samples() -> dict[str, Any]:
    """Settings for a sensor's layer whose units are fully open at every sample, at whatever time it comes, and not learned.

    The layer of a sensor runs at the samples of its sensor and at no other time, so gates that never close are open exactly
    there. This is right for every sensor, also one with irregular times. `phased.aligned` gives the paper's hand-set gates, which
    close between the samples of a regular sensor; in a `Fusion` both compute the same.

    Returns:
        Keyword arguments of `PhasedLSTM` and `PhasedGRU`.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, open_at_samples
        >>> rnn = PhasedLSTM(3, 2, **open_at_samples())
        >>> rnn.gates()[0](torch.tensor([0.0, 0.3, 1e9 / 7])).tolist()
        [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
        >>> [name for name, value in rnn.named_parameters() if value.requires_grad]
        ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """
    return {"period": 1.0, "shift": 0.0, "ratio_on": 1.0, "gate": "square", **FIXED}


def draw(values: Values, size: int, name: str) -> Tensor:
    """One float64 value for each unit, from a number, a law or a tensor; on the CPU, or on meta if the tensor is."""
    if isinstance(values, Tensor) or callable(values):
        given = check.one_per_unit(values if isinstance(values, Tensor) else values(size), size, name).detach()
        return given.to("meta" if given.is_meta else "cpu", torch.float64, copy=True)
    check.number(name, values)
    return Constant(float(values))(size)
