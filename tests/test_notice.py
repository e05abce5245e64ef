"""Warnings point at the line of the user, however deep in the library they are issued."""

import joblib
import numpy as np
import pytest
import torch

from phased import PhasedLSTM, notice
from phased.data.recording import Recording
from phased.estimator import Events, PhasedClassifier

RANDOM = np.random.default_rng(0)
X = Events.of([np.arange(6.0)] * 20, list(RANDOM.normal(size=(20, 6, 1))), unit="h")
FAR = Events.of([1000 * np.arange(6.0)] * 2, list(RANDOM.normal(size=(2, 6, 1))), unit="h")
MARKED = Events.of(
    [np.arange(6.0)] * 20, list(np.where(RANDOM.random((20, 6, 1)) < 0.4, -999.0, 1.0 + X.value.reshape(20, 6, 1)))
)
Y = np.arange(20) % 2
SECONDS = np.array([(n // 10, 0, 0, 1) for n in range(1000)], [("t", "i8"), ("x", "i8"), ("y", "i8"), ("p", "i8")])


@pytest.fixture(scope="module")
def model():
    return PhasedClassifier(units=2, epochs=1, updates=None, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda model: model.predict(FAR), "longest of the training"),
        (lambda model: model.predict_proba(FAR), "longest of the training"),
        (lambda model: model.evaluate(FAR, [0, 1]), "longest of the training"),
        (lambda model: model.fit(MARKED, Y), "marks for 'not known'"),
        (lambda _: PhasedLSTM(1, 2, leak=0.5)(torch.full((3, 1), torch.nan), torch.arange(3.0)), "input must be finite"),
        (lambda _: Recording.from_array(SECONDS), "look like seconds"),
        (lambda _: joblib.Parallel()([joblib.delayed(notice.warn)("in another loop")]), "in another loop"),
        (lambda _: notice.warn("a category", UserWarning), "a category"),
    ],
    ids=["predict", "predict_proba", "evaluate", "fit", "layer", "recording", "cross-validation", "this line"],
)
def test_a_warning_names_the_line_that_called_into_the_library(model, call, message):
    with pytest.warns(UserWarning, match=message) as found:
        call(model)
    (own,) = [each for each in found if message in str(each.message)]
    assert own.filename == __file__
    assert own.lineno == call.__code__.co_firstlineno
