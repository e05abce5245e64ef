"""Periods and an open ratio from the times of a data set."""

from __future__ import annotations

import math
from typing import Any, TypedDict

import torch
from torch import Tensor

from phased import check, clock, notice
from phased.clock import Clocks
from phased.gate import LONGEST_PERIOD, phase
from phased.init import LogUniform

PERIODS, SHIFTS = 128, 100
"""The ratio is measured with units of so many periods, evenly spread over their logarithm, and so many shifts of each."""
SHARE = 0.99
"""Part of these units that have to open in at least half of the sequences."""
SEQUENCES, STEPS = (16, 128), 1 << 14
"""From 16 sequences, if they are long, to 128 are read for the ratio, and at most so many steps of all of them together."""
FEW = 20
"""A unit learns little from sequences in which it has fewer updates than this."""


class Fitted(TypedDict):
    """Keyword arguments of `PhasedLSTM` and `PhasedGRU`."""

    period: LogUniform
    ratio_on: float


def fitted(time: Any, lengths: Any = None, *, batch_first: bool = False, ratio_on: float = 0.05) -> Fitted:
    """Settings for a layer whose periods fit the times of a data set.

    Periods are drawn from twice the median gap between two steps to the median span of a sequence, and cover at least two octaves
    below that span. Steps at the same time have no gap between them. The open ratio is `ratio_on`, unless sequences have so few
    steps that short open times would miss them: then it is the smallest one with which 99 % of the units that the law may draw
    open in at least half of the sequences. `never_open` finds units that open nowhere, `wake` opens them.

    Args:
        time: Times of all sequences: a list with an array for each of them, one array, or a padded batch.
        lengths: Number of steps of each sequence of a padded batch that are data. Default: all.
        batch_first: Whether a padded batch has the batch as its first dimension.
        ratio_on: The smallest open ratio, in (0, 1].

    Shape:
        - time: each array of a list (steps,), of any length; a padded batch (T, B), or (B, T) with `batch_first`.
        - lengths: (B,).

    Returns:
        `period`, a `LogUniform`, and `ratio_on`: keyword arguments of `PhasedLSTM` and `PhasedGRU`.

    Raises:
        TypeError: time is not made of real numbers, or ratio_on is no number.
        ValueError: Shapes do not fit; times are not finite, go backwards or were made equal by rounding; no sequence has two
            steps at different times, so that there is no gap; or ratio_on is not in (0, 1].

    Warns:
        UserWarning: The open ratio leaves a unit fewer than 20 updates in the median sequence.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, fitted
        >>> hours = [torch.arange(97) / 2, torch.arange(48) / 2, torch.arange(95) / 2]
        >>> settings = fitted(hours, ratio_on=0.25)
        >>> settings["period"]
        LogUniform(low=1.0, high=47.0)
        >>> rnn = PhasedLSTM(3, 8, **settings)
    """
    check.flag("batch_first", batch_first)
    check.number("ratio_on", ratio_on, low=0.0, low_open=True, high=1.0)
    data = clock.read(time, lengths, batch_first)
    found = settings(data, float(ratio_on))
    warn_few(data, found["ratio_on"])
    return found


def settings(data: Clocks, ratio_on: float) -> Fitted:
    """The settings for these times, with `ratio_on` or a larger open ratio."""
    gaps, spans = data.gaps(), data.spans()
    gaps, moving = gaps[gaps > 0], spans[spans > 0]
    if not len(gaps):
        raise ValueError(
            f"time must have a sequence with two steps at different times, got {len(data.lengths)} sequences with "
            f"{len(data.time)} steps and none. Without a gap no period fits: set period= by hand."
        )
    span = float(moving.median())
    if not span <= LONGEST_PERIOD:
        raise ValueError(
            f"time must span at most {LONGEST_PERIOD:g}, got a median span of {span:g}. Choose a larger unit of time."
        )
    law = LogUniform(min(2 * float(gaps.median()), span / 4), span)
    return {"period": law, "ratio_on": max(ratio_on, open_ratio(data, law))}


def warn_few(data: Clocks, ratio_on: float) -> None:
    """Warn if a unit has fewer than FEW updates in the median sequence: its open ratio times the steps."""
    steps = int(data.lengths[data.lengths > 0].median())
    if ratio_on < 1 and ratio_on * steps < FEW:
        enough = min(1.0, math.ceil(100 * FEW / steps) / 100)
        notice.warn(
            f"ratio_on must leave a unit at least {FEW} updates in a sequence, got {ratio_on:g}, which leaves a median of "
            f"{ratio_on * steps:.3g} updates in {steps} steps. Pass ratio_on={enough:g} to fitted, or begin with open gates and "
            f"close them later: a layer with ratio_on=1.0 and learn_ratio_on=True, trained with phased.learn.OpenFirst."
        )


def open_ratio(data: Clocks, law: LogUniform) -> float:
    """The smallest ratio, a multiple of 1 / SHIFTS, with which the SHARE of a law's units open in at least half of the sequences.

    A unit opens in a sequence if a step follows its shift, in the cycle, by less than the ratio. So the ratio that it needs there
    is the distance from its shift to the next phase of a step.
    """
    usable = (data.spans() > 0).nonzero().flatten()
    fewest, most = SEQUENCES
    wanted = min(most, max(fewest, STEPS // int(data.lengths[usable].median())))
    some = usable[:: math.ceil(len(usable) / wanted)]
    each = STEPS // len(some)
    spread = (torch.arange(PERIODS, dtype=torch.float64, device="cpu") + 0.5) / PERIODS
    periods = law.low * (law.high / law.low) ** spread
    needed = torch.stack([_needed(_thinned(data.sequence(int(index)), each), periods) for index in some])
    units = needed.median(0).values.flatten()
    return int(units.kthvalue(math.ceil(SHARE * len(units))).values) / SHIFTS


def _thinned(time: Tensor, most: int) -> Tensor:
    """At most so many steps of a sequence: half of them neighbours, which short periods need, half spread over all of it."""
    if len(time) <= most:
        return time
    half = most // 2
    others = torch.linspace(half, len(time) - 1, most - half, dtype=torch.float64, device="cpu").long()
    return torch.cat([time[:half], time[others]])


def _needed(time: Tensor, periods: Tensor) -> Tensor:
    """For each period and shift, the distance to the next phase of a step, (PERIODS, SHIFTS), in units of 1 / SHIFTS."""
    bins = (phase(time.unsqueeze(-1), periods, torch.zeros_like(periods)) * SHIFTS).long().clamp(max=SHIFTS - 1)
    met = torch.zeros(len(periods), SHIFTS, dtype=torch.bool, device="cpu")
    met[torch.arange(len(periods), device="cpu").expand_as(bins), bins] = True
    position = torch.arange(2 * SHIFTS, device="cpu")  # the cycle twice: the next phase may lie in the next cycle
    following = torch.where(met.repeat(1, 2), position, 2 * SHIFTS).flip(1).cummin(1).values.flip(1)[:, :SHIFTS]
    return following - position[:SHIFTS] + 1
