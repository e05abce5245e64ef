"""Scores of predictions, as the report, the model card and `phased score` give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics


def of_classes(y: NDArray[np.int64], p: NDArray[np.float64]) -> dict[str, float]:
    """Scores of probabilities p (N, classes) for classes y (N,): AUROC and AUPRC need both classes, others any."""
    found: dict[str, float] = {}
    labels = np.arange(p.shape[1])
    if p.shape[1] == 2:
        if len(np.unique(y)) == 2:
            found["auroc"] = float(metrics.roc_auc_score(y, p[:, 1]))
            found["auprc"] = float(metrics.average_precision_score(y, p[:, 1]))
    elif len(np.unique(y)) == p.shape[1]:
        found["auroc"] = float(metrics.roc_auc_score(y, p / p.sum(1, keepdims=True), multi_class="ovr", labels=labels))
    found["accuracy"] = float((p.argmax(1) == y).mean())
    found["log_loss"] = float(metrics.log_loss(y, p, labels=labels))
    return found


def of_numbers(y: NDArray[Any], answer: NDArray[np.float64]) -> dict[str, float]:
    """Scores of a regression: the coefficient of determination, root mean squared error and mean absolute error."""
    # Numbers near 1e-200 are scaled by a power of two, which rounds nothing: their squares would be 0.
    exponent = int(np.frexp(max(np.abs(y).max(initial=0.0), np.abs(answer).max(initial=0.0)))[1])
    y, answer = np.ldexp(y, -exponent), np.ldexp(answer, -exponent)
    error = answer - y
    found = {} if len(y) < 2 else {"r2": float(metrics.r2_score(y, answer))}
    errors = {"rmse": np.sqrt((error**2).mean()), "mae": np.abs(error).mean()}
    return found | {name: float(np.ldexp(value, exponent)) for name, value in errors.items()}
