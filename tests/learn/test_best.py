"""Early stopping: the best epoch's weights, and the same numbers after an interruption."""

import pytest
import torch
from torch import nn

from phased.learn.best import Best
from phased.learn.device import make_fabric
from phased.learn.loop import Training, fit
from phased.learn.metric import sum_of_losses, sum_of_scores
from phased_lab.runs.network import NetworkConfig
from training import SMALL

SHORT = Training(epochs=8, train=24, test=16, batch=8, rate=3e-2)


class Wrong:
    """The share of wrong classes, of which fewer are better."""

    def __repr__(self):
        return "Wrong()"

    def loss(self, answer, batch):
        return sum_of_losses(answer, batch)

    def score(self, answer, batch):
        return batch.labels - sum_of_scores(answer, batch, batch.labels).score


def test_the_lowest_result_counts_and_patience_ends():
    best, model = Best(2), nn.Linear(1, 1, bias=False)
    for epoch, test in enumerate((3.0, 1.0, 2.0, float("nan")), 1):
        assert not best.over
        nn.init.constant_(model.weight, epoch)
        best.take(model, epoch, test)
    assert best.over
    assert (best.epoch, best.test) == (2, 1.0)
    best.restore(model)
    assert model.weight.item() == 2.0


@pytest.mark.parametrize(
    "tests, kept",
    [
        ((1.0, 4.0, 3.0, 2.0), 4),  # the first, lowest by chance, is forgotten after the third
        ((1.0, 4.0), 1),  # unless training ends before
        ((2.0, 4.0, float("nan"), 3.0), 1),  # or the third is no number
        ((3.0, 2.0, 1.0, 5.0, 4.0), 3),
    ],
)
def test_a_network_that_has_hardly_been_trained_is_not_kept(tests, kept):
    best, model = Best(3), nn.Linear(1, 1, bias=False)
    for epoch, test in enumerate(tests, 1):
        nn.init.constant_(model.weight, epoch)
        best.take(model, epoch, test)
    best.restore(model)
    assert best.epoch == model.weight.item() == kept


def test_without_an_epoch_the_model_stays_as_it_is():
    model = nn.Linear(1, 1)
    before = model.weight.clone()
    Best(1).restore(model)
    assert torch.equal(model.weight, before)


def test_a_training_ends_early_with_the_best_weights_and_resumes_to_the_same(tmp_path):
    fabric, curves, weights = make_fabric("cpu"), [], []
    for folder, pauses in (("whole", (8,)), ("halves", (2, 8))):
        for epochs in pauses:
            model, best = NetworkConfig(units=5).build(SMALL, 0), Best(2)
            training = Training(epochs, SHORT.train, SHORT.test, SHORT.batch, SHORT.rate)
            trained = fit(SMALL, model, training, tmp_path / folder, fabric, objective=Wrong(), best=best)
        curves.append([epoch[:3] for epoch in trained.curve])
        weights.append(model.linear.weight)
        assert best.test == min(epoch.test for epoch in trained.curve)
        assert len(trained.curve) == min(8, best.epoch + 2)
    assert curves[0] == curves[1]
    assert torch.equal(*weights)


def test_a_training_that_has_ended_is_not_continued(tmp_path):
    fabric = make_fabric("cpu")
    for _ in range(2):
        model, best = NetworkConfig(units=5).build(SMALL, 0), Best(1)
        trained = fit(SMALL, model, SHORT, tmp_path, fabric, objective=Wrong(), best=best)
    assert trained.resumed == len(trained.curve)


def test_a_checkpoint_without_a_best_epoch_or_of_another_objective_is_refused(tmp_path):
    fabric = make_fabric("cpu")
    fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)
    with pytest.raises(ValueError, match="without early stopping"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, best=Best(2))
    with pytest.raises(ValueError, match="objective is None there"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, objective=Wrong())
    with pytest.raises(ValueError, match="optimizer must have a repr"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, optimizer=lambda model: None)
