"""The learning rate over a training."""

import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from phased.learn.loop import RISE, Pace, one_cycle, set_pace


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1001])
def test_one_cycle_is_torchs_with_a_shorter_rise(steps):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    schedule = OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=RISE)
    for step in range(steps):
        (group,) = optimizer.param_groups
        assert one_cycle(step, steps, 3e-3) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-12)
        optimizer.step()
        if step < steps - 1:
            schedule.step()


def test_a_pace_is_set_for_all_parameters():
    optimizer = torch.optim.Adam([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)])
    set_pace(optimizer, Pace(0.25, 0.5))
    assert [(group["lr"], group["betas"]) for group in optimizer.param_groups] == [(0.25, (0.5, 0.999))] * 2
