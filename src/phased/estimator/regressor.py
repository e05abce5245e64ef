"""PhasedRegressor: a number from measurements at uneven times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from phased import check
from phased.estimator import metrics
from phased.estimator.base import PhasedEstimator
from phased.estimator.events import Events
from phased.estimator.objective import Objective
from phased.estimator.saving import SavedMixin
from phased.estimator.scaling import center_and_spread
from phased.estimator.targets import LARGEST_TARGET, Targets


@dataclass(kw_only=True, eq=False, repr=False)
class PhasedRegressor(SavedMixin, RegressorMixin, PhasedEstimator):  # type: ignore[misc]
    """A Phased LSTM that predicts a number from measurements at uneven times, with scikit-learn's conventions.

    Like `PhasedClassifier`, for numbers: one for each sequence, or one for each step. It minimises the squared error.

    Args:
        units: Units of the layer.
        updates: The largest share of updates of units on the training sequences, in (0, 1]; None for no limit.
        cell: "phased_lstm" or "phased_gru"; "lstm" or "gru" for a comparison with a layer of torch.
        learning_rate: Learning rate of AdamW.
        weight_decay: Decay of weight matrices; gates and biases have none.
        dropout: Dropout of the states before the last layer.
        batch_size: Sequences per batch. None for 64, or fewer, at least 8, if an epoch would have fewer than 40 batches.
        epochs: The most epochs.
        patience: Epochs without a lower loss on held-out sequences after which training stops. The weights of epochs before
            this one are kept only if training ends there: a network that has hardly been trained may do well by chance.
        validation: Share of the sequences to hold out.
        refit: Whether to train another network on all sequences, also those held out, for as many epochs as were best. It is kept
            if it is not worse on these.
        device: "auto", "cpu", "cuda" or "cuda:1".
        random_state: Seed, or numpy's RandomState; None for another result in every fit.
        checkpoint: A folder. A training that was interrupted continues from there.
        verbose: Show the progress.

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
    dropout: float = 0.1  # less than for classes: the answer is the sum of what is not zeroed
    center_: float = field(init=False)
    spread_: float = field(init=False)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted numbers.

        Args:
            X: Events with the variables and the unit of the training, or a list of (times, values).

        Shape:
            - returned: (n,); with one target per step (steps,), aligned with `X.time`.

        Returns:
            The numbers.

        Raises:
            ValueError: X has unknown variables or another unit.
            sklearn.exceptions.NotFittedError: `fit` was not called.

        Warns:
            UserWarning: Sequences are much longer than those of the training.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=2, random_state=0).fit(X, range(20))
            >>> model.predict(X).shape
            (20,)
        """
        return self._answer(self._raw(X))

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Scores on other sequences: R2, root mean squared error and mean absolute error.

        Args:
            X: Events or a list of (times, values).
            y: Their numbers, as `fit` takes them.

        Returns:
            Scores by name.

        Raises:
            ValueError: y does not fit X.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=2, random_state=0).fit(X, range(20))
            >>> sorted(model.evaluate(X, range(20)))
            ['mae', 'r2', 'rmse']
        """
        events = self._events(X)
        found = self._targets(events, y)
        return self._scores((self._numbers(found) - self.center_) / self.spread_, found.counts, self.predict(events))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination, R2, as scikit-learn's regressors give it; see `evaluate` for more."""
        if sample_weight is not None:
            return float(super().score(X, y, sample_weight))
        scores = self.evaluate(X, y)
        if "r2" not in scores:
            raise ValueError("y must have at least two targets, because R2 compares with their mean, got one. Use evaluate.")
        return scores["r2"]

    def _numbers(self, found: Targets) -> NDArray[np.float64]:
        """Targets as float64; 0 where they are not known."""
        if found.y.dtype.kind not in "biufO":
            raise ValueError(f"y must be numbers, got {found.known()[0]!r}. Use PhasedClassifier for classes.")
        numbers = np.zeros(len(found.y))
        which = slice(None) if found.counts is None else found.counts
        numbers[which] = [check.as_float(number) for number in found.known()] if found.y.dtype.kind == "O" else found.known()
        if not np.isfinite(numbers).all():
            raise ValueError("y must be finite, got infinity. Leave out such sequences.")
        large = np.abs(numbers).max(initial=0.0)
        if large > LARGEST_TARGET:
            raise ValueError(f"y must be from {-LARGEST_TARGET:g} to {LARGEST_TARGET:g}, got {large:g}. Divide y by a number.")
        return numbers

    def _encode(self, found: Targets, train: NDArray[np.int64]) -> NDArray[Any]:
        numbers = self._numbers(found)
        known = np.sort(numbers if found.counts is None else numbers[found.counts])
        self.center_, spread = center_and_spread(known)
        self.spread_ = spread if spread > 1e-9 * float(np.abs(known).max(initial=0.0)) else 1.0
        scaled: NDArray[Any] = ((numbers - self.center_) / self.spread_).astype(np.float32)
        return scaled

    def _stratified(self) -> bool:
        return False

    def _outputs(self) -> int:
        return 1

    def _objective(self, y: NDArray[Any], counts: Any, train: NDArray[np.int64], events: Events) -> Objective:
        return Objective()

    def _answer(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        return raw * self.spread_ + self.center_

    def _scores(self, y: NDArray[Any], counts: Any, answer: NDArray[np.float64]) -> dict[str, float]:
        numbers = y.astype(np.float64) * self.spread_ + self.center_
        return metrics.of_numbers(numbers, answer) if counts is None else metrics.of_numbers(numbers[counts], answer[counts])
