"""Own irregular data: from a table of measurements to a trained model."""

from phased import lazy

lazy.module("sklearn", "phased.estimator", "estimator")

from phased.estimator.classifier import PhasedClassifier  # noqa: E402 (after the error that says what to install)
from phased.estimator.events import Events  # noqa: E402
from phased.estimator.normalise import Normalise  # noqa: E402
from phased.estimator.normalise_stream import NormaliseStream  # noqa: E402
from phased.estimator.online import Online  # noqa: E402
from phased.estimator.regressor import PhasedRegressor  # noqa: E402
from phased.estimator.report import Report  # noqa: E402
from phased.estimator.shares import Shares  # noqa: E402
from phased.model_folder import BadModel  # noqa: E402

__all__ = [
    "BadModel",
    "Events",
    "Normalise",
    "NormaliseStream",
    "Online",
    "PhasedClassifier",
    "PhasedRegressor",
    "Report",
    "Shares",
]
