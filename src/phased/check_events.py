"""Checks of a stream's events, before its state changes."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from phased import check, clock
from phased.check import finite_values as finite_values
from phased.check import numbers as numbers
from phased.check import table as table
from phased.clock import after as after
from phased.clock import moment as moment


def event(x: Tensor, time: float, input_size: int, entries: int | None, last: float | None) -> None:
    """One event of a stream: a feature vector or an index, and a time that is finite and not before the last."""
    check.event(x, input_size, entries)
    clock.after(time, last)


def events(
    x: Tensor, time: Tensor, input_size: int, entries: int | None, last: float | None, open_time: Callable[[], float]
) -> None:
    """Many events of a stream, in order of time, which is in a dtype that tells them apart."""
    check.events(x, input_size, entries)
    clock.events(time, x, last, open_time())
