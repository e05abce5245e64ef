"""PhasedClassifier: classes from measurements at uneven times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from phased.estimator import metrics
from phased.estimator.base import PhasedEstimator
from phased.estimator.events import Events
from phased.estimator.objective import Objective
from phased.estimator.saving import SavedMixin
from phased.estimator.targets import Targets, class_weights


@dataclass(kw_only=True, eq=False, repr=False)
class PhasedClassifier(SavedMixin, ClassifierMixin, PhasedEstimator):  # type: ignore[misc]
    """A Phased LSTM that classifies sequences of measurements at uneven times, with scikit-learn's conventions.

    `fit` scales the measurements, makes inputs from last-known values, masks and ages, takes periods from the data's own gaps and
    spans, and stops early on held-out sequences. The same seed gives the same numbers on the same machine. `predict_proba`,
    `online` and `save` come after it.

    Args:
        units: Units of the layer.
        updates: The largest share of updates of units on the training sequences, in (0, 1]; None for no limit.
        class_weight: None, "balanced", or a dict of classes to weights.
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
        classes_: The classes, sorted, (classes,).
        report_: What was chosen, learned and measured; see `phased.estimator.report.Report`.

    Example:
        >>> import numpy as np
        >>> from phased.estimator import PhasedClassifier
        >>> random = np.random.default_rng(0)
        >>> X = [(np.sort(random.uniform(0, 10, 20)), random.normal(label, 1, (20, 1))) for label in [0, 2] * 20]
        >>> model = PhasedClassifier(units=8, epochs=5, random_state=0).fit(X, ["low", "high"] * 20)
        >>> model.predict_proba(X).shape
        (40, 2)
    """

    kind: ClassVar[str] = "classifier"
    class_weight: Any = None
    classes_: NDArray[Any] = field(init=False)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class.

        Args:
            X: Events with the variables and the unit of the training, or a list of (times, values).

        Shape:
            - returned: (n, classes); with one target per step (steps, classes), aligned with `X.time`.

        Returns:
            The probabilities, in the order of `classes_`.

        Raises:
            ValueError: X has unknown variables or another unit.
            sklearn.exceptions.NotFittedError: `fit` was not called.

        Warns:
            UserWarning: Sequences are much longer than those of the training.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedClassifier
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in [0, 1] * 10]
            >>> model = PhasedClassifier(units=4, epochs=2, random_state=0).fit(X, [0, 1] * 10)
            >>> model.predict_proba(X[:3]).sum(1).round(6).tolist()
            [1.0, 1.0, 1.0]
        """
        return self._answer(self._raw(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class.

        Args:
            X: Events with the variables and the unit of the training, or a list of (times, values).

        Shape:
            - returned: (n,); with one target per step (steps,), aligned with `X.time`.

        Returns:
            The classes.

        Raises:
            ValueError: X has unknown variables or another unit.
            sklearn.exceptions.NotFittedError: `fit` was not called.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedClassifier
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in [0, 1] * 10]
            >>> model = PhasedClassifier(units=4, epochs=2, random_state=0).fit(X, [0, 1] * 10)
            >>> model.predict(X).shape
            (20,)
        """
        best = self.predict_proba(X).argmax(1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Scores on other sequences: AUROC, AUPRC, accuracy and log loss.

        Args:
            X: Events or a list of (times, values).
            y: Their classes, as `fit` takes them.

        Returns:
            Scores by name. Those that need both classes are left out where y has one.

        Raises:
            ValueError: y does not fit X, or has classes that are not in `classes_`.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedClassifier
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in [0, 1] * 10]
            >>> model = PhasedClassifier(units=4, epochs=2, random_state=0).fit(X, [0, 1] * 10)
            >>> sorted(model.evaluate(X, [0, 1] * 10))
            ['accuracy', 'auprc', 'auroc', 'log_loss']
        """
        events = self._events(X)
        found = self._named(self._targets(events, y))
        strange = np.setdiff1d(found.known(), self.classes_)
        if len(strange):
            raise ValueError(f"y must have classes of the model, {self.classes_.tolist()}, got {strange.tolist()[0]!r}.")
        return self._scores(self._numbered(found), found.counts, self.predict_proba(events))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of correct classes, as scikit-learn's classifiers give it; see `evaluate` for more."""
        if sample_weight is not None:
            return float(super().score(X, y, sample_weight))
        return self.evaluate(X, y)["accuracy"]

    def _named(self, found: Targets) -> Targets:
        """Targets as text if the classes are text: a part of the classes 1, 2 and A may be read as numbers."""
        if self.classes_.dtype.kind != "U" or found.y.dtype.kind not in "biuf":
            return found
        whole = found.known() if found.y.dtype.kind != "f" else found.known().astype(np.int64)
        y = np.full(len(found.y), None) if found.counts is not None else np.empty(len(found.y), object)
        words = {str(name).lower(): name for name in self.classes_}
        y[slice(None) if found.counts is None else found.counts] = [words.get(str(each).lower(), str(each)) for each in whole]
        return found._replace(y=y)

    def _numbered(self, found: Targets) -> NDArray[np.int64]:
        """Targets as numbers of classes; 0 where they are not known."""
        numbers = np.zeros(len(found.y), np.int64)
        which = slice(None) if found.counts is None else found.counts
        numbers[which] = np.searchsorted(self.classes_, found.known().astype(self.classes_.dtype))
        return numbers

    def _encode(self, found: Targets, train: NDArray[np.int64]) -> NDArray[Any]:
        known = found.known()
        if known.dtype.kind not in "biufUO":
            raise ValueError(f"y must be numbers or text, got {known.dtype}. Convert the classes with y.astype(str).")
        if known.dtype.kind == "f" and not np.isfinite(known).all():
            raise ValueError("y must be finite, got infinity. Leave out such sequences.")
        if known.dtype.kind == "f" and not (known == np.round(known)).all():
            raise ValueError(
                f"y must be classes, got fractions such as {known[known != np.round(known)][0]}. Use PhasedRegressor."
            )
        if known.dtype.kind == "O":
            known = np.array(known.tolist())
            if known.dtype.kind not in "biufU":
                raise ValueError(
                    f"y must be numbers or text, got {type(found.known()[0]).__name__}. Convert it with y.astype(str)."
                )
        classes = np.unique(known)
        if len(classes) < 2:
            raise ValueError(f"y must have at least 2 classes, got {classes.tolist()[0]!r} only.")
        whole = found.counts is not None and classes.dtype.kind == "f"  # integers that NaN made floats of
        self.classes_ = classes.astype(np.int64) if whole else classes
        return self._numbered(found)

    def _stratified(self) -> bool:
        return True

    def _outputs(self) -> int:
        return len(self.classes_)

    def _objective(self, y: NDArray[Any], counts: Any, train: NDArray[np.int64], events: Events) -> Objective:
        chosen, known = self._chosen(y, counts, events, train)
        return Objective(class_weights(self.class_weight, self.classes_, chosen if known is None else chosen[known]))

    def _answer(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        powers = np.exp(raw - raw.max(1, keepdims=True))
        found: NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
        return found

    def _scores(self, y: NDArray[Any], counts: Any, answer: NDArray[np.float64]) -> dict[str, float]:
        return metrics.of_classes(y, answer) if counts is None else metrics.of_classes(y[counts], answer[counts])
