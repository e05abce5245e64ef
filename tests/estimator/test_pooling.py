"""Pooling of states: the last, mean and highest state of each sequence, and their gradient."""

import pytest
import torch

from phased.estimator.pooling import pool_every_step, pool_states

LENGTHS = torch.tensor([4, 0, 1, 3, 2])


def states(dtype, units=7):
    """States (T, B, H) between -1 and 1 with equal ones, as a closed unit has them."""
    h = 2 * torch.rand(4, len(LENGTHS), units, dtype=dtype, generator=torch.Generator().manual_seed(0)) - 1
    h[2, 3], h[1, 0], h[1, 4] = h[1, 3], h[2, 0], h[0, 4]
    return h.requires_grad_()


def by_hand(h):
    """The definition, one sequence at a time."""
    rows = []
    for sequence, length in enumerate(LENGTHS):
        own = h[:length, sequence]
        rows.append(torch.cat([own[-1], own.mean(0), own.amax(0)]) if length else h.new_zeros(3 * h.shape[-1]))
    return torch.stack(rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [torch.int64, torch.int16])
def test_last_mean_and_highest_states_and_their_gradient_are_those_of_the_definition(dtype, lengths):
    h, weights = states(dtype), torch.randn(len(LENGTHS), 21, dtype=dtype)
    found, expected = torch.cat(pool_states(h, LENGTHS.to(lengths)), -1), by_hand(h)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad((y * weights).sum(), h)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_the_states_so_far_are_those_of_a_sequence_that_ends_there():
    h = states(torch.float64)
    for step in range(len(h)):
        ended = pool_states(h[: step + 1], torch.full((len(LENGTHS),), step + 1))
        for so_far, whole in zip(pool_every_step(h), ended, strict=True):
            torch.testing.assert_close(so_far[step], whole)
