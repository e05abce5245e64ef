"""Own irregular data: from a table of measurements to a trained model."""

from phased.estimator.classifier import PhasedClassifier
from phased.estimator.events import Events
from phased.estimator.online import Online
from phased.estimator.regressor import PhasedRegressor
from phased.estimator.report import Report
from phased.estimator.store import BadModel

__all__ = ["BadModel", "Events", "Online", "PhasedClassifier", "PhasedRegressor", "Report"]
