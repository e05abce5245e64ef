"""What is refused, and what is warned of."""

import importlib
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import phased.estimator
from patients import QUICK, X, Y, patients, quick
from phased.estimator import Events, PhasedClassifier, PhasedRegressor
from phased.estimator.batches import split
from phased.estimator.targets import Targets

AT_20 = (X.time > 20).astype(int)


def fit(X=X, y=Y, validation=None):
    """Fit a classifier."""
    return PhasedClassifier(**QUICK).fit(X, y, validation=validation)


class Named(np.ndarray):
    """An array with a name, as a column of a frame has."""

    name = "HR"


@pytest.mark.parametrize(
    "y, message",
    [
        (np.zeros(60, int), "targets must have at least 2 classes, got 0 only"),
        (Y[:-1], "targets must be given for each of the 60 sequences, or for each of their"),
        (np.where(np.arange(60) == 7, np.nan, Y), "targets must be known for every sequence, got nan for 'p007'"),
        (Y[:, None], "targets must have one dimension"),
        (Y + 0.5 * (np.arange(60) == 3), "targets must be classes, got fractions such as 1.5"),
        (Y.view(Named), "the target must not be among the inputs, got 'HR' as both"),
        (X.static[:, 1], "the target must not be among the inputs, got static 'ICU' equal to y"),
        ([np.zeros(3)] * 60, "targets must be given for each of the"),
        (np.full(len(X.time), np.nan), "targets must have a known target at one step"),
        (np.where(np.arange(60) == 3, np.inf, Y), "targets must be finite, got infinity"),
        (np.array(["2024-01-01", "2024-01-02"] * 30, "M8[D]"), "targets must be numbers or text, got datetime64"),
        (np.array([b"a", b"b"] * 30), "targets must be numbers or text, got |S1"),
        (np.array(["a", 1] * 30, object), "targets must be all numbers or all text, got 1 and 'a'"),
        ([0, "1"] * 30, "targets must be all numbers or all text, got 0 and '1'"),
        ([np.nan, "1"] * 30, "targets must be known for every sequence, got nan for 'p000'"),
        ([["a"] * n if n % 2 else [1.0] * n for n in X.lengths], "targets must be all numbers or all text, got 1.0 and 'a'"),
        (pd.Series(["a", "b"] * 29 + ["a", None], dtype="string"), "must be known for every sequence, got <NA> for 'p059'"),
    ],
)
def test_wrong_classes_are_refused(y, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        fit(y=y)


def sequences(variables, unit="h", **static):
    """A sequence of one step."""
    return Events.of([[0.0]], [[[1.0]]], variables=variables, unit=unit, **static)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: PhasedRegressor(**QUICK).fit(X, ["a", "b"] * 30), "targets must be numbers"),
        (lambda: PhasedRegressor(**QUICK).fit(X, np.where(np.arange(60) == 7, np.inf, 1.0 * Y)), "targets must be finite"),
        (lambda: fit([], []), "at least one sequence"),
        (lambda: PhasedRegressor(**QUICK).fit(X[:1], [1.0]), "at least 2 sequences"),
        (lambda: fit(X[:50], Y[:50], validation=(X[40:], Y[40:])), "got 'p040' and 9 others in both"),
        (lambda: fit(X[:50], Y[:50], (X[50:], AT_20[X.offset[50] :])), "both have a target for each sequence, or for each step"),
        (lambda: quick().predict(sequences(["Lactate"])), r"variables of X must be known to the model, .*, got 'Lactate'"),
        (lambda: quick().predict(sequences(["HR"], static=[[1.0]], statics=["Sex"])), "statics of X must be known .*, got 'Sex'"),
        (lambda: quick().predict(sequences(["HR"], "min")), "X must have times in 'h', the unit of the model, got 'min'"),
        (lambda: quick().evaluate(X, Y + 1), r"targets must have classes of the model, .*, got 2"),
        (lambda: quick().evaluate(X, AT_20), "targets must be given for each sequence, .*, got one for each step"),
    ],
)
def test_what_does_not_fit_together_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "parameters, error, message",
    [
        ({"units": 0}, ValueError, "units must be at least 1"),
        ({"epochs": 1.5}, TypeError, "epochs must be an int"),
        ({"updates": 0.0}, ValueError, "updates must be in"),
        ({"updates": 0.1, "cell": "lstm"}, ValueError, "updates must be None for cell='lstm'"),
        ({"cell": "rnn"}, ValueError, "cell must be one of"),
        ({"validation": 1.0}, ValueError, "validation must be in"),
        ({"dropout": 1.0}, ValueError, "dropout must be in"),
        ({"device": "tpu"}, ValueError, "device must be one of"),
        ({"class_weight": "heavy"}, ValueError, "class_weight must be one of 'balanced'"),
        ({"class_weight": {7: 2.0}}, ValueError, "class_weight must have classes of y, .*, got 7"),
        ({"class_weight": {1: -2.0}}, ValueError, r"class_weight of 1 must be in \[0, 1e\+30\], got -2"),
        ({"class_weight": {1: 1e308}}, ValueError, "class_weight of 1 must be in .*, got 1e.308"),
        ({"class_weight": {0: 0, 1: 0}}, ValueError, "class_weight must have a class above 0"),
        ({"units": 10**400}, ValueError, "units must be at most 65536, got inf"),
        ({"device": None}, TypeError, "device must be 'auto', 'cpu' or 'cuda', got NoneType"),
        ({"random_state": -1}, ValueError, "random_state must be None, a RandomState or a seed from 0 to .*, got -1"),
        ({"updates": 1e-6}, ValueError, "updates must be at least 0.000.*, one update of one unit in the .* steps"),
        ({"units": 10**6}, ValueError, "units must be at most 65536"),
        ({"checkpoint": "a\0b"}, ValueError, "a name must be without null characters"),
        ({"class_weight": 3}, TypeError, "class_weight must be None, 'balanced' or a dict"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        PhasedClassifier(**{**QUICK, **parameters}).fit(X, Y)


@pytest.mark.parametrize("given", ["table.csv", 3, np.zeros((4, 3)), [np.zeros(3)], [(1, 2, 3)]])
def test_anything_else_than_sequences_is_refused(given):
    with pytest.raises(TypeError, match="X must be Events or a list of"):
        fit(given, [0, 1])
    with pytest.raises(TypeError, match="validation must be a pair"):
        fit(validation=given)


def test_held_out_sequences_have_the_share_of_each_class_and_repeated_ones_are_on_one_side():
    y = (np.arange(60) % 6 == 0).astype(int)
    _, test = split(X, Targets.of(X, y), 0.2, np.random.RandomState(0), stratify=True)
    assert (len(test), int(y[test].sum())) == (12, 2)
    again = X[np.arange(120) % 60]
    train, test = split(again, Targets.of(again, np.concatenate([Y, Y])), 0.2, np.random.RandomState(0), stratify=True)
    assert not set(again.ids[train]) & set(again.ids[test])
    assert len(train) + len(test) == 120


# Sequences with an age that looks like "not known".
MARKED = replace(X, static=np.where(np.arange(120).reshape(60, 2) < 20, [-1.0, 1.0], X.static))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda model: model.predict(replace(X, time=X.time * 2)), "spans .* h; the longest of the training"),
        (lambda model: model.predict_proba(replace(X, time=X.time / 3600)), "Check the unit of time"),
        (lambda model: model.evaluate(replace(X, time=X.time / 3600), Y), "Check the unit of time"),
        (lambda model: PhasedClassifier(**QUICK).fit(MARKED, Y), r"Age = -1 \(10 times\).*\(missing: "),
        (lambda model: PhasedClassifier(**{**QUICK, "units": 64}, updates=0.004).fit(X, Y), "of 64 units open at no step"),
    ],
)
def test_a_warning_is_about_the_line_of_the_user(classifier, call, message):
    with pytest.warns(UserWarning, match=message) as caught:
        call(classifier)
    assert {warning.filename for warning in caught} == {__file__}


def test_outliers_constants_variables_without_values_and_sequences_without_steps_do_no_harm():
    some, y = patients(empty=True)
    assert (some.lengths == 0).any()
    value, times = np.array(some.dense()), np.split(some.time, some.offset[1:-1])
    value[:, 1] = 4.0
    value[:, 2] = np.nan
    value[5, 0] = 1e30
    wild = Events.of(times, np.split(value, some.offset[1:-1]), static=np.full((60, 1), np.nan), unit="h")
    model = PhasedClassifier(**QUICK).fit(wild, y)
    assert np.isfinite(model.predict_proba(wild)).all()
    assert np.abs(model._sequences(wild, Targets(y, None)).rows(np.arange(len(wild)))).max() < 20


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # an import of it raises
    with pytest.raises(ModuleNotFoundError, match=r"phased.estimator needs scikit-learn, .* pip install 'phased\[estimator\]'"):
        importlib.reload(phased.estimator)


def test_a_target_per_step_that_is_an_input_is_refused(regressor):
    with pytest.raises(ValueError, match="targets must be given for each step, as in the training, got one for each sequence"):
        regressor.evaluate(X, Y)
    times = [np.arange(5.0)] * 20
    values = [np.random.default_rng(n).normal(size=(5, 2)) for n in range(20)]
    events = Events.of(times, values, variables=["HR", "T"], unit="h")
    for y in ([v[:, 1] for v in values], [np.where(np.arange(5) < 3, v[:, 1], np.nan) for v in values]):
        with pytest.raises(ValueError, match=r"got 'T' equal to y at every step\. Predict its next value, or leave it"):
            PhasedRegressor(**QUICK).fit(events, y)
    PhasedRegressor(**QUICK).fit(events, [np.append(v[1:, 1], np.nan) for v in values])


def test_no_sequences_have_no_answers(classifier, of_three, regressor):
    assert classifier.predict_proba(X[:0]).shape == (0, 2)
    assert of_three.predict_proba(X[:0]).shape == (0, 3)
    assert regressor.predict(X[:0]).shape == (0,)
