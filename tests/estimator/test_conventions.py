"""scikit-learn's conventions, and what a user may rely on: seeds, orders, units."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from patients import QUICK, X, Y, patients, quick
from phased.estimator import Events, PhasedClassifier, PhasedRegressor, estimator
from phased.learn.device import OneDevice


def test_it_learns_what_is_easy():
    more, labels = patients(seed=1)
    model = PhasedClassifier(units=16, epochs=15, batch_size=16, random_state=0).fit(X, Y)
    assert model.evaluate(more, labels)["auroc"] > 0.85
    assert model.score(more, labels) == np.mean(model.predict(more) == labels)


def test_they_are_of_their_kinds_and_there_is_room_for_early_stopping():
    assert is_classifier(PhasedClassifier())
    assert is_regressor(PhasedRegressor())
    assert PhasedClassifier().epochs == 25 > PhasedClassifier().patience


ABOUT_THE_ESTIMATOR = (
    "estimator_tags_renamed valid_tag_types estimator_repr no_attributes_set_in_init estimators_unfitted mixin_order "
    "do_not_raise_errors_in_init_or_set_params parameters_default_constructible get_params_invariance set_params "
    "estimator_cloneable n_features_in_after_fitting"
)
"""Checks of scikit-learn. The others fit matrices (n, features), and X is a list of sequences or Events."""


@pytest.mark.parametrize(
    "one", [PhasedClassifier(class_weight={0: 1.0, 1: 3.0}), PhasedRegressor(updates=0.1)], ids=["classes", "numbers"]
)
@pytest.mark.parametrize("name", ABOUT_THE_ESTIMATOR.split())
def test_scikit_learns_own_checks_pass(one, name):
    getattr(estimator_checks, f"check_{name}")(type(one).__name__, one)


def test_an_estimator_that_was_not_fitted_says_so():
    check_is_fitted(quick())
    for model in (PhasedClassifier(), PhasedRegressor()):
        calls = [getattr(model, name, None) for name in ("predict", "predict_proba", "evaluate", "score", "online", "save")]
        for call, arguments in zip(calls, [X[:1], X[:1], (X, Y), (X, Y), (), ("nowhere",)], strict=True):
            if call is not None:
                with pytest.raises(NotFittedError):
                    call(*arguments)


def test_cross_validation_grid_search_and_pipelines_take_events():
    model = PhasedClassifier(**{**QUICK, "epochs": 1})
    assert cross_val_score(model, X, Y, cv=2, scoring="roc_auc").shape == (2,)
    assert cross_val_predict(model, X, Y, cv=2, method="predict_proba").shape == (60, 2)
    search = GridSearchCV(Pipeline([("model", model)]), {"model__units": np.array([4, 6])}, cv=2).fit(X, Y)
    assert search.best_params_["model__units"] in (4, 6)
    train, test, _, labels = train_test_split(X, Y, test_size=0.25, random_state=0, stratify=Y)
    assert len(train) == 45
    assert search.predict(test).shape == labels.shape


def test_a_list_of_arrays_is_as_good_as_events():
    random = np.random.default_rng(0)
    pairs = [(np.sort(random.uniform(0, 9, 7)), random.normal(size=(7, 2))) for _ in range(20)]
    events = Events.of([times for times, _ in pairs], [values for _, values in pairs])
    models = [PhasedClassifier(**QUICK).fit(given, [0, 1] * 10) for given in (pairs, events)]
    assert np.array_equal(models[0].predict_proba(pairs), models[1].predict_proba(events))
    # Lists have no ids that could be in training and in validation.
    own = PhasedClassifier(**QUICK).fit(pairs, [0, 1] * 10, validation=(pairs[:6], [0, 1] * 3))
    assert (own.report_.train, own.report_.held_out) == (20, 6)


ORDER = np.random.default_rng(0).permutation(60)


@pytest.mark.parametrize(
    "events, order, tolerance",
    [
        (X, slice(None), 0),
        (X[ORDER], ORDER, 1e-6),
        (replace(X, value=X.value * 1000.0, static=X.static * np.array([0.01, 1.0])), slice(None), 1e-5),
        # The gates learn in the unit of time; their first steps differ by less than they change an answer.
        (replace(X, time=X.time * 64.0, unit="min"), slice(None), 1e-5),
    ],
    ids=["seed", "order", "unit of values", "unit of time"],
)
def test_the_same_sequences_give_the_same_answers_and_another_seed_others(events, order, tolerance):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    found, answers = PhasedClassifier(**QUICK).fit(events, Y[order]).predict_proba(events), quick().predict_proba(X)
    assert np.allclose(found, answers[order], rtol=tolerance, atol=tolerance)
    assert np.allclose(quick().predict_proba(X[order]), answers[order], rtol=tolerance, atol=tolerance)
    assert not np.array_equal(quick(random_state=4).predict_proba(X), answers)
    assert torch.equal(torch.rand(3), expected)  # of torch's own generator a fit draws none


def test_when_a_sequence_began_and_the_order_of_its_variables_do_not_matter(classifier):
    mixed = Events.of(
        np.split(X.time + 4096.0, X.offset[1:-1]),
        np.split(X.dense()[:, [2, 0, 1]], X.offset[1:-1]),
        variables=["Temp", "HR", "GCS"],
        static=X.static[:, ::-1],
        statics=["ICU", "Age"],
        unit="h",
    )
    assert np.allclose(classifier.predict_proba(mixed), classifier.predict_proba(X), atol=1e-5)
    without = Events.of([[0.0, 1.0]], [[[80.0], [90.0]]], variables=["HR"], unit="h")
    assert np.isfinite(classifier.predict_proba(without)).all()


@pytest.mark.parametrize("cell", ["phased_gru", "lstm", "gru"])
def test_other_cells_go_through_the_same_path(cell):
    model = quick(cell=cell)
    assert np.allclose(model.predict_proba(X).sum(1), 1.0)
    assert (model.report_.updates < 1) == (cell == "phased_gru")


def test_many_classes_with_names(of_three):
    assert of_three.classes_.tolist() == ["a", "b", "c"]
    assert of_three.predict_proba(X).shape == (60, 3)
    assert set(of_three.predict(X)) <= {"a", "b", "c"}
    assert {"auroc", "accuracy", "log_loss"} <= of_three.evaluate(X, ["a", "b", "c"] * 20).keys()


def test_a_heavier_class_becomes_more_probable():
    weights, y = (None, "balanced", {True: 20.0}), np.arange(60) % 4 == 0
    plain, balanced, chosen = (
        PhasedClassifier(class_weight=weight, **QUICK).fit(X, y).predict_proba(X)[:, 1].mean() for weight in weights
    )
    assert plain < balanced < chosen


def test_targets_for_each_step_are_flat_or_by_sequence_and_need_not_be_known():
    unknown = np.arange(len(X.time)) % 3 == 0
    y = np.where(unknown, np.nan, X.time > 20)
    flat, parts = (PhasedClassifier(**QUICK).fit(X, given) for given in (y, np.split(y, X.offset[1:-1])))
    assert flat.classes_.tolist() == [0, 1]
    assert flat.predict_proba(X).shape == (len(X.time), 2)
    assert np.array_equal(flat.predict_proba(X), parts.predict_proba(X))
    assert np.isfinite(PhasedRegressor(**QUICK).fit(X, np.where(unknown, np.nan, X.time)).predict(X)).all()


def test_a_regression_is_in_the_targets_own_units():
    y = 1000.0 + 5.0 * np.array([np.mean(part) for part in np.split(X.time, X.offset[1:-1])])
    model = PhasedRegressor(**{**QUICK, "epochs": 20}).fit(X, y)
    assert abs(model.predict(X).mean() - y.mean()) < 30.0
    assert model.score(X, y) == model.evaluate(X, y)["r2"]


def test_a_model_stays_on_the_cpu_when_another_device_fails(monkeypatch):
    model = quick()
    with monkeypatch.context() as patch:
        patch.setattr(
            estimator, "one_device", lambda name: OneDevice(torch.device("meta"))
        )  # whose tensors have no values to answer with
        with pytest.raises((NotImplementedError, RuntimeError)):
            model.predict(X)
    assert {value.device.type for value in model.network_.parameters()} == {"cpu"}
    assert np.isfinite(model.predict_proba(X)).all()
