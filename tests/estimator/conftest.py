"""Models that several tests use; each takes a fraction of a second."""

import pytest

from patients import patients
from phased.estimator import PhasedClassifier, PhasedRegressor


@pytest.fixture(scope="session")
def data():
    """Sequences and their classes."""
    return patients()


@pytest.fixture(scope="session")
def classifier(data):
    """A classifier of two classes."""
    return PhasedClassifier(units=8, epochs=4, batch_size=16, random_state=0).fit(*data)


@pytest.fixture(scope="session")
def of_three(data):
    """A classifier of three classes with names."""
    X, _ = data
    return PhasedClassifier(units=8, epochs=2, batch_size=16, random_state=0).fit(X, ["a", "b", "c"] * 20)


@pytest.fixture(scope="session")
def regressor(data):
    """A regressor of a number per step."""
    X, _ = data
    return PhasedRegressor(units=8, epochs=2, batch_size=16, random_state=0).fit(X, X.time * 10.0)
