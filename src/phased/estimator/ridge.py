"""Ridge: a linear model of features, with leave-one-out outputs for the training sequences.

Features are centered but not scaled, so features that vary more count more. All should have the same unit, as shares have.
The penalty with the smallest leave-one-out error is chosen. For classes, the regression is on targets of -1 and 1, and a logistic
regression on the leave-one-out values turns its values into log-probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from phased.estimator.scaling import Array

PENALTIES = np.logspace(-4, 3, 22)
"""Candidate penalties, in units of the mean squared size of a row of centered features."""
SCALES = (1.0, 0.0), (1.0, 0.1), (1.0, 0.3), (1.0, 1.0), (0.3, 1.0), (0.1, 1.0), (0.0, 1.0)
"""Candidate factors for the features of the first and of the second kind."""
CHOOSING = 1000
"""Largest number of sequences on which factors and penalty are chosen."""
CHUNK = 256
"""Number of sequences per block. If there are more sequences than features, the features of one block are in memory."""
TINY = 1e-12
"""Least mean squared size of a row. It is above 0 even if all features are constant."""
C = 10.0
"""Inverse penalty of the logistic regression."""
FOLDS = 5
"""Number of parts of the training sequences. The logits of a part come from a logistic regression on the other parts."""

Floats = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Features:
    """Features of n sequences, of one kind or of two.

    Args:
        rows: returns the features of the sequences with these numbers, the first kind before the second. It is called several
            times for each sequence if there are more sequences than features.
        kinds: number of features of each kind.
    """

    rows: Callable[[Indices], Floats]
    kinds: tuple[int, ...]

    @classmethod
    def of(cls, *arrays: Floats) -> Features:
        """Features in memory, an array (n, features) for each kind."""
        whole: Floats = np.concatenate(arrays, 1)
        return cls(whole.__getitem__, tuple(part.shape[1] for part in arrays))

    def whole(self, sequences: int) -> Floats:
        """Return the features of all sequences."""
        made = self.rows(np.arange(0))
        made = np.empty((sequences, sum(self.kinds)), made.dtype)
        for part in chunks(sequences):
            made[part] = self.rows(part)
        return made


def chunks(sequences: int) -> Iterator[Indices]:
    """Return the numbers of all sequences in blocks."""
    return (np.arange(first, min(first + CHUNK, sequences)) for first in range(0, sequences, CHUNK))


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
    def of(cls, features: Features, y: ArrayLike, classes: int | None = None) -> Ridge:
        """Fit to training sequences.

        Args:
            features: features of the sequences. The leave-one-out error selects the factors of two kinds. A factor of 0 gives
                all features of the kind weight 0.
            y: numbers, or the number of a class from 0 on, (sequences,).
            classes: number of classes, with one logit per class. Default: None, for numbers, with one output.

        Example:
            >>> import numpy as np
            >>> from phased.estimator.ridge import Features, Ridge
            >>> features = np.random.default_rng(0).normal(size=(50, 3))
            >>> ridge = Ridge.of(Features.of(features), features[:, 0] > 0, classes=2)
            >>> bool(np.mean((features @ ridge.weight.T + ridge.bias).argmax(1) == (features[:, 0] > 0)) > 0.9)
            True
        """
        y = np.asarray(y)
        targets = y[:, None].astype(np.float64) if classes is None else np.where(np.arange(classes) == y[:, None], 1.0, -1.0)
        solve = by_sequences if len(y) <= sum(features.kinds) else by_features
        weight, mean, held, penalty = solve(features, torch.from_numpy(targets))
        bias = targets.mean(0) - weight @ mean
        if classes is not None:
            y = y.astype(np.int64)
            by, shift = calibration(held, y, classes)
            weight, bias, held = by @ weight, by @ bias + shift, calibrated(held, y, classes)
        return cls(weight, bias, held, penalty)


def best(parts: list[Tensor], targets: Tensor) -> tuple[tuple[float, ...], float]:
    """Return the factors of the kinds and the penalty with the smallest leave-one-out error, from centered rows of each kind.

    One eigendecomposition gives the errors of all penalties.
    """
    grams, tried = [centered(gram(part)) for part in parts], []
    for factors in SCALES if len(parts) == 2 else ((1.0,),):
        products = torch.zeros_like(grams[0])
        for factor, own in zip(factors, grams, strict=True):
            products += factor**2 * own
        values, vectors = torch.linalg.eigh(products)
        along, size = vectors.T @ (targets - targets.mean(0)), max(float(products.diagonal().mean()), TINY)
        for penalty in PENALTIES * size:
            kept = penalty / (values.clamp(min=0) + penalty)
            error = left_out(vectors @ (kept[:, None] * along), vectors.square() @ kept).square().mean()
            tried.append((float(error), factors, float(penalty)))
    _, factors, penalty = min(tried, key=itemgetter(0))
    return factors, penalty


def chosen_on(some: Callable[[Indices], Floats], mean: Array, kinds: tuple[int, ...], targets: Tensor) -> tuple[Array, float]:
    """Return the factor of each feature and the penalty, chosen on at most CHOOSING sequences."""
    which = np.random.default_rng(0).permutation(len(targets))[:CHOOSING]
    rows, ends = some(which), np.cumsum(kinds)
    rows = rows - mean.astype(rows.dtype)
    parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in np.split(rows, ends[:-1], 1)]
    factors, penalty = best(parts, targets[which])
    return np.repeat(factors, kinds), penalty


def by_sequences(features: Features, targets: Tensor) -> tuple[Array, Array, Array, float]:
    """Return weights (outputs, features), means of the features, leave-one-out values and the penalty, from n equations."""
    given = features.whole(len(targets))
    factor, penalty = chosen_on(given.__getitem__, given.mean(0, dtype=np.float64), features.kinds, targets)
    mean, weight = np.zeros(given.shape[1]), np.zeros((targets.shape[1], given.shape[1]))
    given = given if factor.all() else given[:, factor > 0]
    given *= factor[factor > 0].astype(given.dtype)
    varies, mean[factor > 0] = given.min(0) < given.max(0), given.mean(0, dtype=np.float64)
    given -= mean[factor > 0].astype(given.dtype)
    x = torch.from_numpy(given)
    inverse = inverse_of(centered(gram(x)), penalty)
    found = inverse @ (targets - targets.mean(0))
    held = targets - left_out(penalty * found, penalty * inverse.diagonal())
    weight[:, factor > 0] = np.where(varies, (x.T @ found.to(x.dtype)).double().T.numpy(), 0.0)
    return weight * factor, mean / np.where(factor, factor, 1.0), held.numpy(), penalty


def by_features(features: Features, targets: Tensor) -> tuple[Array, Array, Array, float]:
    """Return the same as `by_sequences`, from one equation per feature.

    The equations are stored in LAPACK's rectangular full packed format, half the size of the matrix, and solved in place.
    """
    sequences, size = len(targets), sum(features.kinds)
    mean, low, high = np.zeros(size), np.full(size, np.inf), np.full(size, -np.inf)
    for part in chunks(sequences):
        x = features.rows(part)
        mean += x.sum(0, dtype=np.float64) / sequences
        low, high = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
    factor, penalty = chosen_on(features.rows, mean, features.kinds, targets)
    used = np.flatnonzero((factor > 0) & (low < high))

    def rows(part: Indices) -> Array:
        return (features.rows(part)[:, used] - mean[used]) * factor[used]

    wanted, number = (targets - targets.mean(0)).numpy(), len(used)
    products, along = np.zeros(number * (number + 1) // 2), np.zeros((number, wanted.shape[1]))
    for part in chunks(sequences):
        x = rows(part)
        products = lapack.dsfrk(number, len(x), 1.0, x.T, 1.0, products, overwrite_c=True)
        along += x.T @ wanted[part]
    products[diagonal(number)] += penalty
    products, failed = lapack.dpftrf(number, products, overwrite_a=True)
    if failed:
        raise np.linalg.LinAlgError(f"products of features must be positive definite, got row {failed} of {number} that is not.")
    weight, held = np.zeros((wanted.shape[1], size)), np.empty_like(wanted)
    found = lapack.dpftrs(number, products, along)[0]
    weight[:, used] = found.T * factor[used]
    kept = np.empty(sequences)
    for part in chunks(sequences):
        x = rows(part)
        held[part] = wanted[part] - x @ found
        kept[part] = 1 - np.square(lapack.dtfsm(1.0, products, x.T, trans="T", overwrite_b=True)).sum(0)
    return weight, mean, (targets - left_out(torch.from_numpy(held), torch.from_numpy(kept))).numpy(), penalty


def diagonal(size: int) -> Indices:
    """Return the places of the diagonal of a packed matrix (transr "N", uplo "U"), not in its order."""
    rows, half = size + (size % 2 == 0), size // 2
    first, second = np.arange(size - half), np.arange(half)
    return np.concatenate([half + first * (rows + 1), half + 1 + second * (rows + 1)])


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
