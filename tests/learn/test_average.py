"""The moving average of a model's parameters."""

import copy

import pytest
import torch

from phased.learn.average import Average
from phased_lab.runs.baselines import BatchNorm
from training import assert_same_weights


def test_the_average_moves_to_the_parameters_and_soon_forgets_the_first():
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average = Average(model, 0.9)
    wanted = 1.0
    for step in range(1, 200):
        with torch.no_grad():
            model.weight.fill_(float(step))
        average.update()
        decay = min(0.9, (1 + step) / (10 + step))
        wanted = decay * wanted + (1 - decay) * step
        assert average.values[0].item() == pytest.approx(wanted, rel=1e-5)
    assert average.values[0].item() == pytest.approx(199 - 9, rel=1e-3), "a ramp, nine steps late"


def test_two_swaps_restore_every_bit():
    model = torch.nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    average = Average(model, 0.5)
    first = copy.deepcopy(model)
    with torch.no_grad():
        model.weight.add_(1.0)
    later = copy.deepcopy(model)
    for wanted in (first, later):
        average.swap()
        assert_same_weights(model, wanted)


def test_statistics_of_a_batch_normalisation_are_averaged_with_the_parameters():
    model = BatchNorm(2)
    average = Average(model, 0.5)
    model.running_mean.fill_(4.0)
    average.update()
    average.swap()
    weight = 1 - min(0.5, 2 / 11)
    torch.testing.assert_close(model.running_mean, torch.full((2,), 4.0 * weight))
    average.swap()
    assert model.running_mean.tolist() == [4.0, 4.0]
