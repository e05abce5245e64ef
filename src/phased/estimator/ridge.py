"""Ridge: a linear model of features, with leave-one-out outputs for the training sequences.

Features are centered but not scaled, so features that vary more count more. All should have the same unit, as shares have.
The penalty with the smallest leave-one-out error is chosen. For classes, the regression is on targets of -1 and 1, and a logistic
regression on the leave-one-out values turns its values into log-probabilities.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from phased.estimator.scaling import Array

PENALTIES = np.logspace(-4, 3, 22)
"""Candidate penalties, in units of the mean squared size of a row of centered features."""
SCALES = (1.0, 0.0), (1.0, 0.1), (1.0, 0.3), (1.0, 1.0), (0.3, 1.0), (0.1, 1.0), (0.0, 1.0)
"""Candidate factors for the features of the first and of the second kind."""
CHOOSING = 1000
"""Largest number of sequences on which factors and penalty are chosen."""
CHUNK = 1024
"""Number of sequences per block if there are more sequences than features."""
TINY = 1e-12
"""Least mean squared size of a row. It is above 0 even if all features are constant."""
C = 10.0
"""Inverse penalty of the logistic regression."""
FOLDS = 5
"""Number of parts of the training sequences. The logits of a part come from a logistic regression on the other parts."""

Floats = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """A linear model of features: the outputs are `features @ weight.T + bias`.

    Attributes:
        weight: (outputs, features). A constant feature has weight 0.
        bias: (outputs,).
        held: leave-one-out outputs for the training sequences, (sequences, outputs).
        penalty: penalty of squared weights.
    """

    weight: Array
    bias: Array
    held: Array
    penalty: float

    @classmethod
    def of(cls, features: Floats, y: ArrayLike, classes: int | None = None, more: Floats | None = None) -> Ridge:
        """Fit to training sequences.

        Args:
            features: (sequences, features). Products of features are computed in the same type, float32 or float64.
            y: numbers, or the number of a class from 0 on, (sequences,).
            classes: number of classes, with one logit per class. Default: None, for numbers, with one output.
            more: features of a second kind, of the same type, which come after the first features. The leave-one-out error
                selects the factors of the two kinds. A factor of 0 gives all features of the kind weight 0.

        Example:
            >>> import numpy as np
            >>> from phased.estimator.ridge import Ridge
            >>> features = np.random.default_rng(0).normal(size=(50, 3))
            >>> ridge = Ridge.of(features, features[:, 0] > 0, classes=2)
            >>> bool(np.mean((features @ ridge.weight.T + ridge.bias).argmax(1) == (features[:, 0] > 0)) > 0.9)
            True
        """
        y = np.asarray(y)
        targets = y[:, None].astype(np.float64) if classes is None else np.where(np.arange(classes) == y[:, None], 1.0, -1.0)
        parts, wanted = [features] if more is None else [features, more], torch.from_numpy(targets)
        factors, penalty = best([Centered.of(part) for part in parts], wanted)
        used = [part if factor == 1 else factor * part for factor, part in zip(factors, parts, strict=True) if factor]
        given = Centered.of(used[0] if len(used) == 1 else np.concatenate(used, 1))
        solve = by_sequences if len(given) <= len(given.mean) else by_features
        found, held = (each.numpy() for each in solve(given, wanted, penalty))
        found = np.where(given.features.min(0) < given.features.max(0), found, 0.0)
        center = targets.mean(0) - found @ given.mean
        if classes is not None:
            y = y.astype(np.int64)
            by, shift = calibration(held, y, classes)
            found, center, held = by @ found, by @ center + shift, calibrated(held, y, classes)
        weight = np.zeros((len(found), sum(part.shape[1] for part in parts)))
        factor = np.repeat(factors, [part.shape[1] for part in parts])
        weight[:, factor > 0] = found * factor[factor > 0]
        return cls(weight, center, held, penalty)


@dataclass(frozen=True)
class Centered:
    """Features minus their means, as tensors of the same type."""

    features: Floats
    mean: Array

    @classmethod
    def of(cls, features: Floats) -> Centered:
        """Measure the means of these features."""
        return cls(features, features.mean(0, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.features)

    def rows(self, which: slice | NDArray[np.int64]) -> Tensor:
        """Return some centered rows."""
        return torch.from_numpy(self.features[which] - self.mean.astype(self.features.dtype))

    def chunks(self) -> list[slice]:
        """Return all rows as slices of at most CHUNK rows."""
        return [slice(first, first + CHUNK) for first in range(0, len(self), CHUNK)]


def best(parts: list[Centered], targets: Tensor) -> tuple[tuple[float, ...], float]:
    """Return the factors of the parts and the penalty with the smallest leave-one-out error.

    One eigendecomposition gives the errors of all penalties.
    """
    chosen = np.random.default_rng(0).permutation(len(targets))[:CHOOSING]
    y = targets[chosen]
    grams, tried = [centered(gram(part.rows(chosen))) for part in parts], []
    for factors in SCALES if len(parts) == 2 else ((1.0,),):
        products = torch.zeros_like(grams[0])
        for factor, own in zip(factors, grams, strict=True):
            products += factor**2 * own
        values, vectors = torch.linalg.eigh(products)
        along, size = vectors.T @ (y - y.mean(0)), max(float(products.diagonal().mean()), TINY)
        for penalty in PENALTIES * size:
            kept = penalty / (values.clamp(min=0) + penalty)
            error = left_out(vectors @ (kept[:, None] * along), vectors.square() @ kept).square().mean()
            tried.append((float(error), factors, float(penalty)))
    _, factors, penalty = min(tried, key=itemgetter(0))
    return factors, penalty


def by_sequences(given: Centered, targets: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Return weights (outputs, features) and leave-one-out values (n, outputs), from n equations."""
    x = given.rows(slice(None))
    inverse = inverse_of(centered(gram(x)), penalty)
    found = inverse @ (targets - targets.mean(0))
    weight = (x.T @ found.to(x.dtype)).double().T
    return weight, targets - left_out(penalty * found, penalty * inverse.diagonal())


def by_features(given: Centered, targets: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Return the same as `by_sequences`, from one equation per feature."""
    wanted, size = targets - targets.mean(0), len(given.mean)
    products, along = wanted.new_zeros(size, size), wanted.new_zeros(size, wanted.shape[1])
    for part in given.chunks():
        x = given.rows(part)
        products += gram(x.T)
        along += x.T.double() @ wanted[part]
    inverse = inverse_of(products, penalty)
    weight = inverse @ along
    of_rows, weight_of_rows = inverse.to(x.dtype), weight.to(x.dtype)
    residual, kept = torch.empty_like(wanted), wanted.new_empty(len(wanted))
    for part in given.chunks():
        x = given.rows(part)
        residual[part] = wanted[part] - (x @ weight_of_rows).double()
        kept[part] = 1 - ((x @ of_rows) * x).sum(1, dtype=torch.float64)
    return weight.T, targets - left_out(residual, kept)


def gram(x: Tensor) -> Tensor:
    """Return the products of all pairs of rows, in float64."""
    return (x @ x.T).double()


def centered(products: Tensor) -> Tensor:
    """Center products of rows. Rows in float32 are centered already, but not to the precision that `left_out` needs."""
    less = products - products.mean(0)
    return less - less.mean(1, keepdim=True)


def inverse_of(products: Tensor, penalty: float) -> Tensor:
    """Return the inverse of a matrix of products with the penalty added to its diagonal, in place."""
    while True:
        products.diagonal().add_(penalty)
        factor, failed = torch.linalg.cholesky_ex(products)
        if not failed:
            return torch.cholesky_inverse(factor)
        penalty *= 10  # products of float32 rows may be rounded by more than a small penalty


def left_out(residual: Tensor, kept: Tensor) -> Tensor:
    """Return the residuals of left-out sequences, (n, outputs).

    Args:
        residual: residuals of the fit to all sequences.
        kept: part of a change of a target that stays in the residual of the sequence, if the mean target is known, (n,).
    """
    return residual / (kept - 1 / len(kept)).clamp(min=1e-9)[:, None]


def calibration(held: Array, y: NDArray[np.int64], classes: int) -> tuple[Array, Array]:
    """Return factors (classes, classes) and shifts (classes,) that turn the values of a ridge into logits."""
    present = np.unique(y)
    factor, shift = (
        np.zeros((classes, classes)),
        np.full(classes, -np.log(len(y) + 1.0)),
    )  # a class without sequences is improbable
    shift[present] = 0.0
    if len(present) > 1:
        with warnings.catch_warnings():  # of classes with a sequence or two
            warnings.simplefilter("ignore", UserWarning)
            fitted = LogisticRegression(C=C, max_iter=1000).fit(held, y)
        of_two = len(present) == 2  # scikit-learn returns the difference of the two logits
        factor[present] = np.concatenate([-fitted.coef_, fitted.coef_]) / 2 if of_two else fitted.coef_
        shift[present] = np.concatenate([-fitted.intercept_, fitted.intercept_]) / 2 if of_two else fitted.intercept_
    return factor, shift


def calibrated(held: Array, y: NDArray[np.int64], classes: int) -> Array:
    """Return logits from leave-one-out values. Each part is calibrated on the other parts."""
    fold, logits = np.random.default_rng(0).permutation(len(y)) % FOLDS, np.zeros_like(held)
    for number in range(FOLDS):
        own = fold == number
        factor, shift = calibration(held[~own], y[~own], classes)
        logits[own] = held[own] @ factor.T + shift
    return logits
