"""PhasedRegressor: a number from measurements at uneven times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from phased.estimator.estimator import PhasedEstimator
from phased.estimator.targets import Number


@dataclass(kw_only=True, eq=False, repr=False)
class PhasedRegressor(RegressorMixin, PhasedEstimator):  # type: ignore[misc]
    """A network with time gates that predicts a number from measurements at uneven times, with scikit-learn's conventions.

    It minimises the squared error of one number for each sequence, or one for each step. Parameters and methods are those of
    `PhasedClassifier`, without `class_weight` and `predict_proba`. The default of `dropout` is 0.1.

    Args:
        dropout: Dropout of the dense layers and of the states.

    Attributes:
        report_: What was chosen, learned and measured; see `phased.estimator.report.Report`.

    Example:
        >>> import numpy as np
        >>> from phased.estimator import PhasedRegressor
        >>> random = np.random.default_rng(0)
        >>> X = [(np.sort(random.uniform(0, 10, 20)), random.normal(size=(20, 1))) for _ in range(40)]
        >>> y = [np.cumsum(values[:, 0]) for _, values in X]  # one for each step
        >>> model = PhasedRegressor(units=8, epochs=2, random_state=0).fit(X, y)
        >>> model.predict(X[:2]).shape
        (40,)
    """

    kind: ClassVar[str] = "regressor"
    _targets: ClassVar[type[Number]] = Number
    dropout: float = 0.1  # less than for classes: the answer is the sum of what is not zeroed
    center_: float = field(init=False)
    spread_: float = field(init=False)

    @property
    def _target(self) -> Number:
        return Number(self.center_, self.spread_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination, R2, as scikit-learn's regressors give it; see `evaluate` for more."""
        if sample_weight is not None:
            return float(super().score(X, y, sample_weight))
        scores = self.evaluate(X, y)
        if "r2" not in scores:
            raise ValueError(
                "targets must have at least two targets, because R2 compares with their mean, got one. Use evaluate."
            )
        return scores["r2"]
