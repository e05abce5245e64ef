"""The ridge: leave-one-out values are those of models fitted without a sequence, and weights contain the calibration."""

import numpy as np
import pytest
from scipy.linalg import lapack
from sklearn.linear_model import Ridge as ByScikitLearn

from phased.estimator import ridge as of_ridge
from phased.estimator.ridge import Features, Ridge, diagonal


def problem(n, features, classes=None, seed=0, kind=np.float64):
    """Features, the third of them constant, and a class or a number that depends on them."""
    random = np.random.default_rng(seed)
    x = random.random((n, features))
    x[:, 2] = 0.1
    signal = 5 * x[:, 0] - 4 * x[:, 1] + random.normal(0, 0.3, n)
    y = signal if classes is None else np.searchsorted(np.quantile(signal, np.arange(1, classes) / classes), signal)
    return x.astype(kind), y


def outputs(ridge, x):
    return x @ ridge.weight.T + ridge.bias


def log_loss(logits, y):
    assert np.isfinite(logits).all()
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]))


@pytest.mark.parametrize("n, features", [(25, 60), (60, 25)])
@pytest.mark.parametrize("kind, error", [(np.float64, 1e-8), (np.float32, 1e-3)])
def test_held_numbers_are_those_of_models_fitted_without_a_sequence(n, features, kind, error):
    x, y = problem(n, features, kind=kind)
    found = Ridge.of(Features.of(x), y)
    assert found.held.shape == (n, 1)
    for left in range(n):
        others = np.arange(n) != left
        model = ByScikitLearn(alpha=found.penalty, solver="cholesky").fit(x[others].astype(float), y[others])
        assert found.held[left, 0] == pytest.approx(model.predict(x[[left]].astype(float))[0], abs=error)


@pytest.mark.parametrize("n, features", [(25, 60), (60, 25)])
def test_the_penalty_has_the_smallest_leave_one_out_error(n, features, monkeypatch):
    x, y = problem(n, features)
    found, tried = Ridge.of(Features.of(x), y), of_ridge.PENALTIES
    errors = []
    for penalty in tried:
        monkeypatch.setattr(of_ridge, "PENALTIES", np.array([penalty]))
        each = Ridge.of(Features.of(x), y)
        errors.append((np.mean((each.held[:, 0] - y) ** 2), each.penalty))
    assert min(errors)[1] == pytest.approx(found.penalty)


@pytest.mark.parametrize("n, features", [(30, 80), (80, 30)])
@pytest.mark.parametrize("kind, error", [(np.float64, 1e-8), (np.float32, 1e-4)])
def test_outputs_of_numbers_are_those_of_scikit_learn(n, features, kind, error):
    x, y = problem(n, features, kind=kind)
    found = Ridge.of(Features.of(x), y)
    expected = ByScikitLearn(alpha=found.penalty).fit(x.astype(float), y).predict(x.astype(float))
    assert np.allclose(outputs(found, x)[:, 0], expected, atol=error)
    assert found.weight.shape == (1, features)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n, features", [(60, 200), (200, 60)])
def test_logits_of_classes_are_calibrated_values_of_one_ridge_for_each(classes, n, features):
    x, y = problem(n, features, classes)
    found, targets = Ridge.of(Features.of(x), y, classes), np.where(np.arange(classes) == y[:, None], 1.0, -1.0)
    values = ByScikitLearn(alpha=found.penalty).fit(x, targets).predict(x)
    assert found.weight.shape == (classes, features)
    assert found.held.shape == (n, classes)
    factor, shift = of_ridge.calibration(of_held(x, targets, found.penalty), y, classes)
    assert np.allclose(outputs(found, x), values @ factor.T + shift, atol=1e-5)
    assert log_loss(found.held, y) < np.log(classes)
    assert np.mean(found.held.argmax(1) == y) > 1 / classes


def of_held(x, targets, penalty):
    """Leave-one-out values, one fit after another."""
    rows = np.arange(len(x))
    fits = [ByScikitLearn(alpha=penalty).fit(x[rows != left], targets[rows != left]) for left in rows]
    return np.concatenate([fit.predict(x[[left]]) for left, fit in enumerate(fits)])


@pytest.mark.parametrize("classes", [None, 2, 3])
@pytest.mark.parametrize("features", [5, 90])
def test_a_constant_feature_has_no_weight(classes, features):
    x, y = problem(40, features, classes)
    found = Ridge.of(Features.of(x), y, classes)
    assert not found.weight[:, 2].any()
    assert np.abs(found.weight[:, :2]).min() > 0


@pytest.mark.parametrize("y, classes", [([1] * 4, 2), ([0, 0, 2, 2], 3), ([3.0] * 4, None), ([1], 2), ([0, 1], 2)])
def test_few_sequences_and_missing_classes_have_finite_outputs(y, classes):
    x, y = np.random.default_rng(0).random((len(y), 6)), np.array(y)
    found = Ridge.of(Features.of(x), y, classes)
    made = outputs(found, x)
    assert np.isfinite(made).all()
    assert np.isfinite(found.held).all()
    assert np.allclose(made, 3) if classes is None else np.isin(made.argmax(1), y).all()


def test_features_that_do_not_vary_give_the_mean():
    found = Ridge.of(Features.of(np.ones((5, 3))), np.arange(5.0))
    assert np.allclose(outputs(found, np.ones((1, 3))), 2)


def test_the_penalty_of_many_sequences_is_chosen_on_some(monkeypatch):
    monkeypatch.setattr(of_ridge, "CHOOSING", 50)
    monkeypatch.setattr(of_ridge, "CHUNK", 64)
    x, y = problem(300, 20)
    found = Ridge.of(Features.of(x), y)
    assert np.mean((found.held[:, 0] - y) ** 2) < 0.2
    assert np.allclose(outputs(found, x)[:, 0], ByScikitLearn(alpha=found.penalty).fit(x, y).predict(x))


def test_it_is_the_same_each_time():
    x, y = problem(40, 60, 3)
    one, other = Ridge.of(Features.of(x), y, 3), Ridge.of(Features.of(x), y, 3)
    assert np.array_equal(one.weight, other.weight)
    assert np.array_equal(one.held, other.held)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("useless", ["first", "second"])
@pytest.mark.parametrize("n", [40, 200])
def test_features_of_two_kinds_get_the_factors_with_the_smaller_error(useless, kind, n):
    x, y = problem(n, 40, kind=kind)
    noise = np.random.default_rng(1).normal(0, 9, (n, 60)).astype(kind)
    first, second = (noise, x) if useless == "first" else (x, noise)
    found, alone = Ridge.of(Features.of(first, second), y), Ridge.of(Features.of(x), y)
    size = np.abs(found.weight[0])
    assert found.weight.shape == (1, 100)
    assert (size[:60] if useless == "first" else size[40:]).max() < 0.01
    assert np.mean((found.held[:, 0] - y) ** 2) <= 1.05 * np.mean((alone.held[:, 0] - y) ** 2)
    both = np.concatenate([first, second], 1).astype(float)
    assert np.allclose(outputs(found, both).mean(), y.mean(), atol=1e-4)


def test_rows_that_are_nearly_equal_are_solved_with_a_larger_penalty():
    random = np.random.default_rng(0)
    features = np.outer(random.random(3000), random.random(20)).astype(np.float32)
    ridge = Ridge.of(Features.of(features), features[:, 0].astype(np.float64))
    assert np.isfinite(ridge.weight).all()
    assert np.isfinite(ridge.held).all()


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_the_diagonal_of_a_packed_matrix_is_found(size):
    packed, failed = lapack.dtrttf(np.diag(np.arange(1.0, size + 1)))
    assert not failed
    assert sorted(packed[diagonal(size)].tolist()) == list(range(1, size + 1))


@pytest.mark.parametrize("n", [40, 200])
def test_features_are_read_in_blocks(n, monkeypatch):
    monkeypatch.setattr(of_ridge, "CHUNK", 64)
    monkeypatch.setattr(of_ridge, "CHOOSING", 30)
    x, y = problem(n, 60)
    sizes = []

    def rows(which):
        sizes.append(len(which))
        return x[which]

    found, whole = Ridge.of(Features(rows, (20, 40)), y), Ridge.of(Features.of(x[:, :20], x[:, 20:]), y)
    assert max(sizes) <= 64
    assert np.allclose(outputs(found, x), outputs(whole, x))
