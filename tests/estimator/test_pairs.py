"""Products of pairs of summaries: what they compute, learn, and leave out."""

import numpy as np
import pytest
import torch

from patients import X, Y, follow, patients
from phased.estimator import PhasedClassifier, PhasedRegressor
from phased.estimator.pairs import LEAST_SPREAD, SPREAD, Pairs
from phased.estimator.summary import Pieces


@pytest.fixture
def measured():
    """Pairs of two of three summaries, one of which hardly ever differs, and the rows that they were measured on."""
    rows = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    rows[:, 2] = (torch.arange(400) < 1).float()
    pieces, made = Pieces(3, 8), Pairs(2, 8, 2)
    pieces.measure(rows)
    made.measure(pieces, torch.tensor([0, 2]), rows[:, [0, 2]])
    return made, rows[:, [0, 2]]


def test_they_are_a_quadratic_form_of_ranks_and_so_is_their_gradient(measured):
    made, rows = measured[0].double(), measured[1].double()
    with torch.no_grad():
        made.weight.copy_(torch.arange(8.0).reshape(2, 2, 2) + 1)
    ranks, to_y = (made.ranks(rows) - made.center) * made.factor, torch.randn(len(rows), 2, dtype=torch.float64)
    expected = torch.einsum("bi,oij,bj->bo", ranks, made.weight, ranks)
    found = made(rows)
    assert torch.allclose(found, expected)
    assert torch.allclose(*(torch.autograd.grad((y * to_y).sum(), made.weight)[0] for y in (found, expected)))


def test_a_product_has_the_same_spread_whatever_the_unit_and_a_summary_that_hardly_differs_has_none(measured):
    made, rows = measured
    ranks = (made.ranks(rows) - made.center) * made.factor
    assert ranks.mean(0).abs().max() < 1e-5
    wide = float(made.ranks(rows)[:, 0].std(correction=0))
    assert float(ranks[:, 0].std(correction=0)) == pytest.approx(SPREAD**0.5 * wide / (wide + LEAST_SPREAD), rel=1e-4)
    assert ranks[:, 1].abs().max() == 0


def test_an_outlier_is_an_extreme_rank_and_no_more(measured):
    made, rows = measured
    far = torch.tensor([[1e9, 0.0]])
    assert made.ranks(far)[0, 0] == made.ranks(rows.amax(0, keepdim=True))[0, 0]


def test_two_variables_that_only_matter_together_are_learned():
    level = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    data, alike = [(np.arange(2.0), np.tile(pair, (2, 1))) for pair in level], level.prod(1) > 0
    # States are dropped in nearly every batch, and then not read at all, so products have to learn it.
    model = PhasedClassifier(units=1, epochs=6, learning_rate=0.1, dropout=0.99, batch_size=32, refit=False, random_state=0)
    network = model.fit(data[:300], alike[:300]).network_
    with torch.no_grad():
        network.head.weight[:, : network.sizes.states] = 0
        learned = model.score(data[300:], alike[300:])
        network.pairs.weight.zero_()
    assert learned > 0.8
    assert model.score(data[300:], alike[300:]) < 0.65


@pytest.mark.parametrize("cls", [PhasedClassifier, PhasedRegressor])
def test_online_answers_have_them(cls):
    events, y = patients(40)
    model = cls(units=2, epochs=1, random_state=0).fit(events, y)
    with torch.no_grad():
        model.network_.pairs.weight.normal_(0, 30, generator=torch.Generator().manual_seed(0))
    expected = model.predict_proba(events)[:, 1] if cls is PhasedClassifier else model.predict(events)
    assert np.ptp(expected) > 0.1
    for number in range(5):
        answer = follow(model, events, number)[-1]
        assert answer == pytest.approx(float(expected[number]), abs=1e-5 * max(1, abs(expected[number])))


def test_with_very_many_variables_or_a_target_per_step_there_are_none(monkeypatch, regressor):
    assert regressor.network_.pairs is None
    monkeypatch.setattr("phased.estimator.network.MOST_PAIRED", 3)
    model = PhasedClassifier(units=2, epochs=1, random_state=0).fit(X, Y)
    assert model.network_.pairs is None
    assert follow(model, X, 0)[-1] == pytest.approx(float(model.predict_proba(X)[0, 1]), abs=1e-5)
