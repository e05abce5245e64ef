"""Ridge: a linear model of features, with its outputs for each training sequence as if that sequence had been left out.

Features are centered but not scaled. They should have one unit, as shares have. Features that vary more then count more.
The penalty with the smallest leave-one-out error is chosen. For classes, the regression is on targets of -1 and 1, and a logistic
regression on the leave-one-out values turns its values into log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from phased.estimator.scaling import Array

PENALTIES = np.logspace(-4, 3, 22)
"""Penalties that are tried, in mean squared sizes of a row of centered features."""
SCALES = (1.0, 0.0), (1.0, 0.1), (1.0, 0.3), (1.0, 1.0), (0.3, 1.0), (0.1, 1.0), (0.0, 1.0)
"""Factors that are tried for the features of one kind and for the features of another kind."""
CHOOSING = 1000
"""Sequences on which factors and penalty are chosen, at most."""
CHUNK = 1024
"""Sequences at a time where there are more of them than features."""
TINY = 1e-12
"""Least mean squared size of a row: there may be no feature that varies."""
C = 10.0
"""Inverse penalty of the logistic regression."""
FOLDS = 5
"""Parts of the training sequences: the logits of each are from a logistic regression on the others."""

Floats = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """A linear model of features: the outputs are `features @ weight.T + bias`.

    Attributes:
        weight: (outputs, features). A constant feature has weight 0.
        bias: (outputs,).
        held: outputs for each training sequence of a model that was fitted without it, (sequences, outputs).
        penalty: of squared weights.
    """

    weight: Array
    bias: Array
    held: Array
    penalty: float

    @classmethod
    def of(cls, features: Floats, y: ArrayLike, classes: int | None = None, more: Floats | None = None) -> Ridge:
        """Fit to training sequences.

        Args:
            features: (sequences, features). Products of them are in their type, float32 or float64.
            y: numbers, or the number of a class from 0 on, (sequences,).
            classes: how many classes there are, each of which has one output, its logit; None for numbers, which have one output.
            more: features of another kind and of the same type, which come after the first. The leave-one-out error decides by
                which factors the two kinds are multiplied; a factor of 0 gives all of them weight 0.

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
    """Features less their means, as tensors of their own type."""

    features: Floats
    mean: Array

    @classmethod
    def of(cls, features: Floats) -> Centered:
        """Measured on these features."""
        return cls(features, features.mean(0, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.features)

    def rows(self, which: slice | NDArray[np.int64]) -> Tensor:
        """Some rows."""
        return torch.from_numpy(self.features[which] - self.mean.astype(self.features.dtype))

    def chunks(self) -> list[slice]:
        """All rows, some at a time."""
        return [slice(first, first + CHUNK) for first in range(0, len(self), CHUNK)]


def best(parts: list[Centered], targets: Tensor) -> tuple[tuple[float, ...], float]:
    """The factors of parts, and the penalty, with the smallest leave-one-out error.

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
    """Weights (outputs, features) and leave-one-out values (n, outputs), by a system of n equations."""
    x = given.rows(slice(None))
    inverse = inverse_of(centered(gram(x)), penalty)
    found = inverse @ (targets - targets.mean(0))
    weight = (x.T @ found.to(x.dtype)).double().T
    return weight, targets - left_out(penalty * found, penalty * inverse.diagonal())


def by_features(given: Centered, targets: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """The same, by as many equations as there are features."""
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
    """Products of the rows, float64."""
    return (x @ x.T).double()


def centered(products: Tensor) -> Tensor:
    """Products of rows less the mean row. Rows of float32 are centered too, but not to the precision that `left_out` needs."""
    less = products - products.mean(0)
    return less - less.mean(1, keepdim=True)


def inverse_of(products: Tensor, penalty: float) -> Tensor:
    """The inverse of a matrix of products with the penalty on its diagonal."""
    products.diagonal().add_(penalty)
    return torch.cholesky_inverse(torch.linalg.cholesky(products))


def left_out(residual: Tensor, kept: Tensor) -> Tensor:
    """Residuals of left-out sequences, (n, outputs).

    Args:
        residual: of the fit to all sequences.
        kept: for each sequence, the part of a change of its target that stays in its residual, if the mean target is known.
    """
    return residual / (kept - 1 / len(kept)).clamp(min=1e-9)[:, None]


def calibration(held: Array, y: NDArray[np.int64], classes: int) -> tuple[Array, Array]:
    """Factors (classes, classes) and shifts (classes,) that turn the values of a ridge into logits."""
    present = np.unique(y)
    factor, shift = (
        np.zeros((classes, classes)),
        np.full(classes, -np.log(len(y) + 1.0)),
    )  # a class without sequences is improbable
    shift[present] = 0.0
    if len(present) > 1:
        fitted = LogisticRegression(C=C, max_iter=1000).fit(held, y)
        of_two = len(present) == 2  # there scikit-learn has one output, the difference of the logits
        factor[present] = np.concatenate([-fitted.coef_, fitted.coef_]) / 2 if of_two else fitted.coef_
        shift[present] = np.concatenate([-fitted.intercept_, fitted.intercept_]) / 2 if of_two else fitted.intercept_
    return factor, shift


def calibrated(held: Array, y: NDArray[np.int64], classes: int) -> Array:
    """Logits from leave-one-out values, by calibrations to other sequences."""
    fold, logits = np.random.default_rng(0).permutation(len(y)) % FOLDS, np.zeros_like(held)
    for number in range(FOLDS):
        own = fold == number
        factor, shift = calibration(held[~own], y[~own], classes)
        logits[own] = held[own] @ factor.T + shift
    return logits
