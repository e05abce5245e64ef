"""The learning rate over a training: constant, or one cycle up and down."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

Schedule = Literal["constant", "one-cycle"]
SCHEDULES: tuple[str, ...] = get_args(Schedule)

# As in torch.optim.lr_scheduler.OneCycleLR: the part of the steps before the highest rate, the rate at the first and at the last
# step as parts of the highest, and Adam's beta1 at the ends and at the highest rate. The rise is shorter than torch's 0.3:
# the first epoch of many is trained at nearly the highest rate.
RISE = 0.02
FIRST, LAST = 1 / 25, 1 / 25e4
BETA, LOWEST_BETA = 0.95, 0.85


class Pace(NamedTuple):
    """The learning rate and Adam's beta1 at one step."""

    rate: float
    beta: float


def one_cycle(step: int, steps: int, highest: float) -> Pace:
    """Step number `step` of `steps` of torch's OneCycleLR: a function of the step, so a resumed training needs no state of it."""
    peak, end = RISE * steps - 1, steps - 1
    if peak > 0 and step <= peak:
        part = step / peak
        return Pace(_between(FIRST, 1.0, part) * highest, _between(BETA, LOWEST_BETA, part))
    part = (step - peak) / (end - peak)
    return Pace(_between(1.0, LAST, part) * highest, _between(LOWEST_BETA, BETA, part))


def _between(begin: float, end: float, part: float) -> float:
    """Half a cosine wave from `begin`, at part 0, to `end`, at part 1."""
    return end + (begin - end) / 2 * (1 + math.cos(math.pi * part))


def set_pace(optimizer: Any, pace: Pace) -> None:
    """Set rate and beta1 of an Adam optimiser."""
    for group in optimizer.param_groups:
        group["lr"], group["betas"] = pace.rate, (pace.beta, group["betas"][1])
