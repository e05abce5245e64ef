"""The optimiser: AdamW without decay of gates and biases, and a budget of updates that every step keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from phased.gate import SMALLEST_RATIO as LOWEST
from phased.groups import parameter_groups

SMALLEST_RATIO = 0.01
"""The open ratio that training leaves to a unit at least, so that it can still learn; less where the budget is less."""


@dataclass(frozen=True)
class Optimiser:
    """Makes the optimiser of a network.

    Args:
        rate: learning rate.
        decay: decoupled weight decay of matrices.
        budget: the highest mean open ratio, or None.
    """

    rate: float
    decay: float
    budget: float | None = None

    def __call__(self, model: nn.Module) -> torch.optim.Optimizer:
        """AdamW, which after every step returns the open ratios to their range and to the budget."""
        optimiser = torch.optim.AdamW(parameter_groups(model, self.decay), lr=self.rate, fused=True)
        ratios = [value for name, value in model.named_parameters() if name.rpartition(".")[2].startswith("ratio_on")]

        def after_step(*_: Any) -> None:
            hold(ratios, self.budget)

        if ratios:
            optimiser.register_step_post_hook(after_step)
        return optimiser


@torch.no_grad()
def hold(ratios: Sequence[Tensor], budget: float | None) -> None:
    """Bound open ratios, and scale them so that their mean is at most the budget, if any; no value is read from a GPU."""
    for ratio in ratios:
        ratio.clamp_(SMALLEST_RATIO if budget is None else min(SMALLEST_RATIO, budget), 1.0)
        if budget is not None:
            ratio.mul_((budget / ratio.mean()).clamp(max=1.0))


@torch.no_grad()
def shrink(ratios: Sequence[Tensor], measure: Callable[[], float], budget: float) -> float:
    """Scale open ratios until the measured share of updates is at most the budget, if it can be; returns that share."""
    share = measure()
    while share > budget and any(bool((ratio > LOWEST).any()) for ratio in ratios):
        for ratio in ratios:
            ratio.mul_(min(0.995, budget / share))
        share = measure()
    return share
