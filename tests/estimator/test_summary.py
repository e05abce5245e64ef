"""Inputs of the linear layer: summaries of a sequence, pieces of summaries between quantiles, products of pairs of summaries."""

import math

import numpy as np
import pytest
import torch

from patients import follow, patients
from phased.estimator import PhasedClassifier, PhasedRegressor, recent
from phased.estimator.inputs import Inputs, Measured, shared
from phased.estimator.pairs import LEAST_SPREAD, Pairs
from phased.estimator.pairs import SPREAD as SPREAD_OF_PRODUCTS
from phased.estimator.recent import RATE
from phased.estimator.scaling import Scaling
from phased.estimator.summary import LEAST_WIDTH, SPREAD, Pieces, columns, summaries
from phased.ops.native import MISSING

X, _ = patients(30)
SCALING = Scaling.of(X)
VARIABLES = len(X.variables)


def slowly(x):
    """The summaries of the steps x (T, D) of one sequence, as the documentation states them."""
    values, masks, time = x[:, :VARIABLES], x[:, VARIABLES : 2 * VARIABLES] > 0, x[:, -1].astype(float)
    rows = []
    for value, mask in zip(values.T.astype(float), masks.T, strict=True):
        measured = np.flatnonzero(mask)
        highest = lowest = roughness = change = 0.0
        if len(measured):
            highest = lowest = value[measured[0]]
            for step in range(measured[0] + 1, len(x)):
                kept, before = math.exp(-RATE * (time[step] - time[step - 1])), value[step - 1]
                highest = max(before + (highest - before) * kept, value[step])
                lowest = min(before + (lowest - before) * kept, value[step])
            roughness = np.abs(np.diff(value[measured])).mean() if len(measured) > 1 else 0.0
            change = value[-1] - value[measured[0]]
        rows.append((highest, lowest, roughness, change))
    return np.concatenate([x[-1], x.mean(0), *np.array(rows).T])


def batch():
    """All sequences padded, with their lengths and static inputs."""
    rows = Inputs(SCALING.numbers, SCALING.span_in_gaps).rows(Measured.of(X, SCALING), np.arange(len(X)))
    parts = np.split(rows[:, : shared(VARIABLES)], X.offset[1:-1])
    padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(part) for part in parts], padding_value=math.nan)
    return parts, padded, torch.from_numpy(X.lengths), torch.from_numpy(SCALING.static_inputs(X.static))


@pytest.fixture(params=["core", "torch"])
def each_way(request, monkeypatch):
    """By the compiled core, and by torch."""
    if request.param == "core" and MISSING is not None:
        pytest.skip(str(MISSING))
    if request.param == "torch":
        monkeypatch.setattr(recent, "core", None)


@pytest.mark.usefixtures("each_way")
def test_summaries_are_last_mean_recent_extremes_roughness_and_change_of_the_steps_so_far():
    parts, x, lengths, static = batch()
    last = summaries(x, static, lengths, VARIABLES, every_step=False)
    found = summaries(x, static, lengths, VARIABLES, every_step=True)
    assert last.shape == (30, columns(shared(VARIABLES), VARIABLES, static.shape[1]))
    for sequence, part in enumerate(parts):
        expected = [np.concatenate([slowly(part[: step + 1]), static[sequence]]) for step in range(len(part))]
        assert np.allclose(found[: len(part), sequence], expected, atol=1e-5)
        assert np.allclose(last[sequence], expected[-1], atol=1e-5)


@pytest.mark.usefixtures("each_way")
def test_summaries_of_no_steps_are_zero_and_of_padding_finite_though_time_goes_back_in_it():
    x = torch.zeros(3, 3, shared(1))
    x[:2, 0, -1] = torch.tensor([0.0, 20.0])  # median spans; the third step is padding
    x[..., 1] = 1.0
    assert summaries(x, torch.ones(3, 0), torch.tensor([2, 3, 0]), 1, every_step=True).isfinite().all()
    none = summaries(torch.zeros(1, 1, shared(2)), torch.ones(1, 3), torch.tensor([0]), 2, every_step=False)
    assert none[0].tolist() == [0.0] * (none.shape[1] - 3) + [1.0] * 3


def test_pieces_rise_from_quantile_to_quantile_without_a_width_they_are_zero_and_a_mask_has_one():
    pieces = Pieces(3, 4)
    pieces.measure(torch.stack([torch.linspace(0, 8, 81), torch.full((81,), 7.0), (torch.arange(81) > 70).float()], 1))
    cut = pieces.cut(torch.tensor([[-1.0, 0, 0], [3.0, 0, 0], [99.0, 0, 0]]))[..., 0]
    assert torch.allclose(cut, torch.tensor([[0.0, 0, 0, 0], [1, 0.5, 0, 0], [1, 1, 1, 1]]), atol=1e-6)
    assert (pieces.slope[:, 2] > 0).tolist() == [False, False, False, True]
    assert pieces.used == 4 + 0 + 1
    assert pieces(torch.tensor([[0.0, 1e9, 0.5]])).reshape(4, 3)[:, 1].abs().max() == 0


def test_pieces_are_centred_have_one_spread_and_do_not_magnify_rounding():
    rows = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
    made = Pieces(2, 8)
    made.measure(rows)
    found = made(rows)
    assert found.mean(0).abs().max() < 1e-6
    assert torch.allclose(found.std(0, correction=0), torch.full((16,), SPREAD), rtol=0.01)
    narrow = Pieces(1, 2)
    narrow.measure(1e9 + torch.rand(50, 1) * LEAST_WIDTH / 2)
    assert narrow.used == 0


def test_a_linear_layer_on_pieces_sees_that_both_low_and_high_are_bad():
    random = np.random.default_rng(0)
    level = random.uniform(-1, 1, 200)
    data = [(np.arange(3.0), np.full((3, 1), value)) for value in level]
    # With states dropped in nearly every batch, pieces have to learn it.
    model = PhasedClassifier(
        cell="gru", convolutions=False, units=2, epochs=15, learning_rate=0.04, dropout=0.99, refit=False, random_state=0
    )
    model.fit(data, np.abs(level) > 0.5)
    with torch.no_grad():
        model.network_.head.weight[:, : model.network_.sizes.units] = 0
    assert model.score(data, np.abs(level) > 0.5) > 0.97


def test_the_penalty_grows_with_pieces_and_falls_with_sequences():
    few, many = (
        PhasedClassifier(units=2, epochs=1, random_state=0, refit=False, convolutions=False).fit(*patients(n)).network_
        for n in (40, 120)
    )
    assert few.decay / few.pieces.used == pytest.approx(3 * many.decay / many.pieces.used, rel=0.1)
    assert few.pairs.decay == pytest.approx(3 * many.pairs.decay, rel=0.1)
    with torch.no_grad():
        many.head.weight[:, many.sizes.units :] = 0
    assert few.prior() > many.prior() == many.pairs.penalty() > 0


@pytest.fixture
def pairs():
    """Pairs of two of three summaries, one of which hardly ever differs, and the rows that they were measured on."""
    rows = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    rows[:, 2] = (torch.arange(400) < 1).float()
    pieces, made = Pieces(3, 8), Pairs(2, 8, 2)
    pieces.measure(rows)
    made.measure(pieces, torch.tensor([0, 2]), rows[:, [0, 2]])
    return made, rows[:, [0, 2]]


def test_products_are_a_quadratic_form_of_ranks_and_so_is_their_gradient(pairs):
    made, rows = pairs[0].double(), pairs[1].double()
    with torch.no_grad():
        made.weight.copy_(torch.arange(8.0).reshape(2, 2, 2) + 1)
    ranks, to_y = (made.ranks(rows) - made.center) * made.factor, torch.randn(len(rows), 2, dtype=torch.float64)
    expected = torch.einsum("bi,oij,bj->bo", ranks, made.weight, ranks)
    found = made(rows)
    assert torch.allclose(found, expected)
    assert torch.allclose(*(torch.autograd.grad((y * to_y).sum(), made.weight)[0] for y in (found, expected)))


def test_a_product_has_the_same_spread_whatever_the_unit_and_a_summary_that_hardly_differs_has_none(pairs):
    made, rows = pairs
    ranks = (made.ranks(rows) - made.center) * made.factor
    assert ranks.mean(0).abs().max() < 1e-5
    wide = float(made.ranks(rows)[:, 0].std(correction=0))
    assert float(ranks[:, 0].std(correction=0)) == pytest.approx(SPREAD_OF_PRODUCTS**0.5 * wide / (wide + LEAST_SPREAD), rel=1e-4)
    assert ranks[:, 1].abs().max() == 0


def test_an_outlier_is_an_extreme_rank_and_no_more(pairs):
    made, rows = pairs
    far = torch.tensor([[1e9, 0.0]])
    assert made.ranks(far)[0, 0] == made.ranks(rows.amax(0, keepdim=True))[0, 0]


def test_two_variables_that_only_matter_together_are_learned():
    level = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    data, alike = [(np.arange(2.0), np.tile(pair, (2, 1))) for pair in level], level.prod(1) > 0
    # States are dropped in nearly every batch, and then not read at all, so products have to learn it.
    gru = {"cell": "gru", "units": 1, "epochs": 6, "learning_rate": 0.1, "dropout": 0.99, "batch_size": 32}
    model = PhasedClassifier(**gru, convolutions=False, refit=False, random_state=0)
    network = model.fit(data[:300], alike[:300]).network_
    with torch.no_grad():
        network.head.weight[:, : network.sizes.units] = 0
        learned = model.score(data[300:], alike[300:])
        network.pairs.weight.zero_()
    assert learned > 0.8
    assert model.score(data[300:], alike[300:]) < 0.65


@pytest.mark.parametrize("cls", [PhasedClassifier, PhasedRegressor])
def test_online_answers_have_products(cls):
    events, y = patients(40)
    model = cls(units=2, epochs=1, convolutions=False, random_state=0).fit(events, y)
    with torch.no_grad():
        model.network_.pairs.weight.normal_(0, 30, generator=torch.Generator().manual_seed(0))
    expected = model.predict_proba(events)[:, 1] if cls is PhasedClassifier else model.predict(events)
    assert np.ptp(expected) > 0.1
    for number in range(5):
        answer = follow(model, events, number)[-1]
        assert answer == pytest.approx(float(expected[number]), abs=1e-5 * max(1, abs(expected[number])))


def test_with_very_many_variables_or_a_target_per_step_there_are_no_pairs_and_fewer_pieces(monkeypatch, regressor, classifier):
    assert [len(model.network_.pieces.start) for model in (regressor, classifier)] == [4, 8]
    assert regressor.network_.pairs is None
    monkeypatch.setattr("phased.estimator.network.MOST_PAIRED", 3)
    model = PhasedClassifier(units=2, epochs=1, convolutions=False, random_state=0).fit(*patients(30))
    assert model.network_.pairs is None
    assert follow(model, patients(30)[0], 0)[-1] == pytest.approx(float(model.predict_proba(patients(30)[0])[0, 1]), abs=1e-5)
