"""Parameters kept beside the trained ones: their moving average, and those of the best epoch."""

import math

import pytest
import torch
from torch import nn

from phased.learn.average import Average, Best
from phased_lab.runs.baselines import BatchNorm
from training import WrongShare


def test_the_average_moves_to_the_parameters_and_soon_forgets_the_first():
    model = nn.Linear(1, 1, bias=False)
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


@pytest.mark.parametrize(
    "patience, tests, kept",
    [
        (2, (3.0, 1.0, 2.0, float("nan")), 2),
        (3, (1.0, 4.0, 3.0, 2.0), 4),  # the first, lowest by chance, is forgotten after the third
        (3, (1.0, 4.0), 1),  # unless training ends before
        (3, (2.0, 4.0, float("nan"), 3.0), 1),  # or the third is no number
        (3, (3.0, 2.0, 1.0, 5.0, 4.0), 3),
        (1, (), 0),  # without an epoch the model stays as it is
    ],
)
def test_the_lowest_result_counts_but_not_of_a_network_that_has_hardly_been_trained(patience, tests, kept):
    best, model = Best(patience), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    for epoch, test in enumerate(tests, 1):
        assert not best.over
        nn.init.constant_(model.weight, epoch)
        best.take(model, epoch, test)
    assert best.over == (len(tests) - kept >= patience)
    best.restore(model)
    assert best.epoch == model.weight.item() == kept
    assert best.test == (math.inf, *tests)[kept]


def test_a_training_ends_early_and_is_not_continued(train):
    curves = []
    for resumed in (False, True):
        best = Best(2)
        trained, _ = train(epochs=8, rate=3e-2, objective=WrongShare(), best=best)
        assert best.test == min(epoch.test for epoch in trained.curve)
        assert len(trained.curve) == min(8, best.epoch + 2)
        assert trained.resumed == (len(trained.curve) if resumed else 0)
        curves.append(trained.curve)
    assert curves[0] == curves[1]
