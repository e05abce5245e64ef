"""Early stopping: the weights of the best epoch."""

import pytest
import torch
from torch import nn

from phased.learn.average import Best
from training import WrongShare


@pytest.mark.parametrize(
    "patience, tests, kept",
    [
        (2, (3.0, 1.0, 2.0, float("nan")), 2),
        (3, (1.0, 4.0, 3.0, 2.0), 4),  # the first, lowest by chance, is forgotten after the third
        (3, (1.0, 4.0), 1),  # unless training ends before
        (3, (2.0, 4.0, float("nan"), 3.0), 1),  # or the third is no number
        (3, (3.0, 2.0, 1.0, 5.0, 4.0), 3),
    ],
)
def test_the_lowest_result_counts_but_not_of_a_network_that_has_hardly_been_trained(patience, tests, kept):
    best, model = Best(patience), nn.Linear(1, 1, bias=False)
    for epoch, test in enumerate(tests, 1):
        assert not best.over
        nn.init.constant_(model.weight, epoch)
        best.take(model, epoch, test)
    assert best.over == (len(tests) - kept >= patience)
    best.restore(model)
    assert best.epoch == model.weight.item() == kept
    assert best.test == tests[kept - 1]


def test_without_an_epoch_the_model_stays_as_it_is():
    model = nn.Linear(1, 1)
    before = model.weight.clone()
    Best(1).restore(model)
    assert torch.equal(model.weight, before)


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
