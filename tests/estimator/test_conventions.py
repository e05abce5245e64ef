"""scikit-learn's conventions, and what a user may rely on: seeds, orders, units."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from patients import patients
from phased.estimator import Events, PhasedClassifier, PhasedRegressor

QUICK = {"units": 6, "epochs": 2, "batch_size": 16, "random_state": 0}


def test_it_learns_what_is_easy(data):
    X, y = data
    more, labels = patients(seed=1)
    model = PhasedClassifier(units=16, epochs=30, batch_size=16, random_state=0).fit(X, y)
    assert model.evaluate(more, labels)["auroc"] > 0.85
    assert model.score(more, labels) == np.mean(model.predict(more) == labels)


def test_parameters_are_kept_as_given_and_cloned():
    model = PhasedClassifier(units=5, updates=0.1, class_weight={0: 1.0, 1: 3.0})
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(units=7).units == 7
    assert is_classifier(model)
    assert is_regressor(PhasedRegressor())


ABOUT_THE_ESTIMATOR = (
    "estimator_tags_renamed valid_tag_types estimator_repr no_attributes_set_in_init estimators_unfitted mixin_order "
    "do_not_raise_errors_in_init_or_set_params parameters_default_constructible get_params_invariance set_params "
    "estimator_cloneable n_features_in_after_fitting"
)
"""Checks of scikit-learn. The others fit matrices (n, features), and X is a list of sequences or Events."""


@pytest.mark.parametrize("estimator", [PhasedClassifier(), PhasedRegressor()], ids=lambda estimator: estimator.kind)
@pytest.mark.parametrize("name", ABOUT_THE_ESTIMATOR.split())
def test_scikit_learns_own_checks_pass(estimator, name):
    getattr(estimator_checks, f"check_{name}")(type(estimator).__name__, estimator)


def test_an_estimator_that_was_not_fitted_says_so(data):
    for model in (PhasedClassifier(), PhasedRegressor()):
        calls = [getattr(model, name, None) for name in ("predict", "predict_proba", "evaluate", "score", "online", "save")]
        for call, arguments in zip(calls, [data[:1], data[:1], data, data, (), ("nowhere",)], strict=True):
            if call is not None:
                with pytest.raises(NotFittedError):
                    call(*arguments)


def test_a_fitted_one_passes_scikit_learns_check(classifier):
    check_is_fitted(classifier)
    assert classifier.classes_.tolist() == [0, 1]


def test_cross_validation_grid_search_and_pipelines_take_events(data):
    X, y = data
    model = PhasedClassifier(**QUICK)
    assert cross_val_score(model, X, y, cv=2, scoring="roc_auc").shape == (2,)
    assert cross_val_predict(model, X, y, cv=2, method="predict_proba").shape == (60, 2)
    search = GridSearchCV(Pipeline([("model", model)]), {"model__units": np.array([4, 6])}, cv=2).fit(X, y)
    assert search.best_params_["model__units"] in (4, 6)
    train, test, _, labels = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    assert len(train) == 45
    assert search.predict(test).shape == labels.shape


def test_a_list_of_arrays_is_as_good_as_events():
    random = np.random.default_rng(0)
    X = [(np.sort(random.uniform(0, 9, 7)), random.normal(size=(7, 2))) for _ in range(20)]
    events = Events.of([times for times, _ in X], [values for _, values in X])
    y = [0, 1] * 10
    models = [PhasedClassifier(**QUICK).fit(given, y) for given in (X, events)]
    assert np.array_equal(models[0].predict_proba(X), models[1].predict_proba(events))


def test_the_same_seed_gives_the_same_numbers_and_another_others(data):
    X, y = data
    found = [PhasedClassifier(**{**QUICK, "random_state": seed}).fit(X, y).predict_proba(X) for seed in (3, 3, 4)]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_fitting_leaves_torchs_random_numbers_alone(data):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    PhasedClassifier(**QUICK).fit(*data)
    assert torch.equal(torch.rand(3), expected)


def test_the_order_of_the_sequences_does_not_matter(data):
    X, y = data
    order = np.random.default_rng(0).permutation(len(X))
    straight = PhasedClassifier(**QUICK).fit(X, y)
    mixed = PhasedClassifier(**QUICK).fit(X[order], y[order])
    assert np.allclose(mixed.predict_proba(X), straight.predict_proba(X), atol=1e-6)
    assert np.allclose(straight.predict_proba(X[order]), straight.predict_proba(X)[order], atol=1e-6)


def test_the_units_of_the_values_do_not_matter(data):
    X, y = data
    scaled = replace(X, value=X.value * 1000.0, static=X.static * np.array([0.01, 1.0]))
    plain, large = (PhasedClassifier(**QUICK).fit(events, y).predict_proba(events) for events in (X, scaled))
    assert np.allclose(large, plain, atol=1e-5)


def test_the_unit_of_time_does_not_matter(data):
    """The gates learn in the unit of time; their first steps differ by less than they change an answer."""
    X, y = data
    minutes = replace(X, time=X.time * 64.0, unit="min")
    hours, others = (PhasedClassifier(**QUICK).fit(events, y).predict_proba(events) for events in (X, minutes))
    assert np.allclose(others, hours, atol=1e-5)


def test_when_a_sequence_began_does_not_matter(classifier, data):
    X, _ = data
    later = replace(X, time=X.time + 4096.0)
    assert np.allclose(classifier.predict_proba(later), classifier.predict_proba(X), atol=1e-5)


def test_sequences_without_steps_have_an_answer_too():
    X, y = patients(empty=True)
    assert (X.lengths == 0).any()
    model = PhasedClassifier(**QUICK).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("cell", ["phased_gru", "lstm", "gru"])
def test_other_cells_go_through_the_same_path(data, cell):
    X, y = data
    model = PhasedClassifier(cell=cell, **QUICK).fit(X, y)
    assert np.allclose(model.predict_proba(X).sum(1), 1.0)
    assert (model.report_.updates < 1) == (cell == "phased_gru")


def test_many_classes_with_names(of_three, data):
    X, _ = data
    assert of_three.classes_.tolist() == ["a", "b", "c"]
    assert of_three.predict_proba(X).shape == (60, 3)
    assert set(of_three.predict(X)) <= {"a", "b", "c"}
    assert {"auroc", "accuracy", "log_loss"} <= of_three.evaluate(X, ["a", "b", "c"] * 20).keys()


def test_a_heavier_class_becomes_more_probable(data):
    X, _ = data
    y = np.arange(60) % 4 == 0
    plain = PhasedClassifier(**QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    balanced = PhasedClassifier(class_weight="balanced", **QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    chosen = PhasedClassifier(class_weight={True: 20.0}, **QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    assert plain < balanced < chosen


def test_a_target_for_each_step_flat_or_by_sequence(data):
    X, _ = data
    y = (X.time > 20).astype(int)
    flat = PhasedClassifier(**QUICK).fit(X, y)
    parts = PhasedClassifier(**QUICK).fit(X, np.split(y, X.offset[1:-1]))
    assert flat.predict_proba(X).shape == (len(X.time), 2)
    assert np.array_equal(flat.predict_proba(X), parts.predict_proba(X))


def test_steps_without_a_target_do_not_count(data):
    X, _ = data
    y = X.time.copy()
    unknown = np.arange(len(y)) % 3 == 0
    models = []
    for filler in (np.nan, np.nan):
        y[unknown] = filler
        models.append(PhasedRegressor(**QUICK).fit(X, y))
    assert np.isfinite(models[0].predict(X)).all()
    assert np.array_equal(models[0].predict(X), models[1].predict(X))
    classes = PhasedClassifier(**QUICK).fit(X, np.where(unknown, np.nan, X.time > 20))
    assert classes.classes_.tolist() == [0, 1]


def test_a_step_does_not_see_the_steps_after_it(regressor, data):
    X, _ = data
    longest = int(X.lengths.argmax())
    one = X[longest]
    times, values = one.time, one.dense()
    half = len(times) // 2
    first = Events.of([times[:half]], [values[:half]], variables=X.variables, static=one.static, statics=X.statics, unit="h")
    assert np.allclose(regressor.predict(first), regressor.predict(one)[:half], atol=1e-4)


def test_a_regression_is_in_the_targets_own_units(data):
    X, _ = data
    mean = np.array([np.nanmean(part) if len(part) else 0.0 for part in np.split(X.time, X.offset[1:-1])])
    model = PhasedRegressor(**{**QUICK, "epochs": 20}).fit(X, 1000.0 + 5.0 * mean)
    assert abs(model.predict(X).mean() - (1000.0 + 5.0 * mean).mean()) < 30.0
    assert model.score(X, 1000.0 + 5.0 * mean) == model.evaluate(X, 1000.0 + 5.0 * mean)["r2"]


def test_variables_in_another_order_or_left_out_are_the_same_variables(classifier, data):
    X, _ = data
    random = Events.of(
        np.split(X.time, X.offset[1:-1]),
        np.split(X.dense()[:, [2, 0, 1]], X.offset[1:-1]),
        variables=["Temp", "HR", "GCS"],
        static=X.static[:, ::-1],
        statics=["ICU", "Age"],
        unit="h",
    )
    assert np.allclose(classifier.predict_proba(random), classifier.predict_proba(X), atol=1e-6)
    without = Events.of([[0.0, 1.0]], [[[80.0], [90.0]]], variables=["HR"], unit="h")
    assert np.isfinite(classifier.predict_proba(without)).all()
