"""PhasedClassifier: classes from measurements at uneven times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from phased.estimator.estimator import PhasedEstimator
from phased.estimator.targets import Classes


@dataclass(kw_only=True, eq=False, repr=False)
class PhasedClassifier(ClassifierMixin, PhasedEstimator):  # type: ignore[misc]
    """A network with time gates that classifies sequences of measurements at uneven times, with scikit-learn's conventions.

    `fit` scales the measurements, makes inputs from last-known values, masks, ages and the history of each sequence, and takes
    periods from the data's own gaps and spans. On held-out sequences it stops early, and chooses between sparse and open gates
    and random convolutions. The same seed gives the same numbers on the same machine. `predict_proba`, `online` and `save` come
    after it.

    Args:
        units: Units of each layer.
        updates: The largest share of updates of units on the training sequences, in (0, 1]. None for no limit: then gates that
            begin open are tried beside sparse ones, and kept if they are better on the held-out sequences by more than a standard
            error.
        class_weight: None, "balanced", or a dict of classes to weights.
        cell: "phased_lstm" or "phased_gru"; "lstm" or "gru" for a comparison with a layer of torch.
        convolutions: With one target per sequence, also try random convolutions that a ridge reads. Alone, or together with the
            recurrent network, they give the answers if they are better on the held-out sequences by more than a standard error.
            They have no class weights, and are left out with `class_weight`.
        learning_rate: Learning rate of AdamW.
        weight_decay: Decay of weight matrices; gates and biases have none.
        dropout: Dropout of the dense layers and of the states.
        batch_size: Sequences per batch. None for 64, or fewer, at least 8, if an epoch would have fewer than 40 batches.
        epochs: The most epochs. Gates that begin open are charged for openness in the last three fifths of them.
        patience: Epochs without a lower loss on held-out sequences after which training stops. The weights of the first four
            epochs are kept only if training ends there: a network that has hardly been trained may do well by chance.
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
    _targets: ClassVar[type[Classes]] = Classes
    class_weight: Any = None
    classes_: NDArray[Any] = field(init=False)

    @property
    def _target(self) -> Classes:
        return Classes.named(self.classes_)

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
        return self._answer(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of correct classes, as scikit-learn's classifiers give it; see `evaluate` for more."""
        if sample_weight is not None:
            return float(super().score(X, y, sample_weight))
        return self.evaluate(X, y)["accuracy"]
