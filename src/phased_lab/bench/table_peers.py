"""Other models of tables, which another virtual environment has: LightGBM on summaries, and MiniRocket with ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased_lab.bench.table_models import Numbers, Sequences
from phased_lab.bench.table_summaries import of_sequences, of_steps, resampled

ROUNDS, PATIENCE, HELD_OUT = 500, 50, 0.1
SETTINGS = {
    "learning_rate": 0.05,  # a higher rate ends after one round on sepsis, where few steps are positive
    "min_sum_hessian_in_leaf": 0.1,  # with the default of .001, of badges with 22 classes, the loss rises after ten rounds
    "feature_fraction": 0.5,
    "num_threads": 1,
    "verbosity": -1,
}
KERNELS, SHORT, LONG = 6000, 60, 300
"""Kernels of MiniRocket, and the steps that sequences are resampled to: SHORT if no sequence is longer."""


def boosting(train: tuple[Sequences, Numbers], test: Sequences, classes: int, seed: int) -> tuple[Numbers, None]:
    """Train LightGBM on summaries. A tenth of the training sequences decides how many rounds it learns from all."""
    import lightgbm

    data, y = train
    every_step = len(y) != len(data.static)
    features: Any = of_steps if every_step else of_sequences
    x, known = features(data), ~np.isnan(y)
    count = len(data.static)
    drawn = np.random.default_rng(seed).permutation(count)[: max(1, round(HELD_OUT * count))]
    held_out = np.isin(data.sequence if every_step else np.arange(count), drawn)
    objective = {0: "regression_l1", 2: "binary"}.get(classes, "multiclass")
    settings = {**SETTINGS, "objective": objective, "seed": seed, **({"num_class": classes} if objective == "multiclass" else {})}

    def trained(rows: NDArray[np.bool_], rounds: int, *held_out: Any, **more: Any) -> Any:
        learned = lightgbm.Dataset(x[rows], y[rows])
        valid = [learned.create_valid(x[each], y[each]) for each in held_out]
        return lightgbm.train(settings, learned, rounds, valid_sets=valid, **more)

    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    tried = trained(known & ~held_out, ROUNDS, known & held_out, callbacks=[stop])
    answer = trained(known, max(1, tried.best_iteration)).predict(features(test))
    return (np.column_stack([1 - answer, answer]) if objective == "binary" else answer), None


def rocket(train: tuple[Sequences, Numbers], test: Sequences, classes: int, by_time: bool, seed: int) -> tuple[Numbers, None]:
    """Train a ridge classifier on MiniRocket's features of resampled sequences, and on static variables."""
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.preprocessing import StandardScaler

    data, y = train
    length = SHORT if np.bincount(data.sequence).max() <= SHORT else LONG
    kernels = MiniRocket(n_kernels=KERNELS, n_jobs=1, random_state=seed)
    of_series, of_kernels, of_static = (StandardScaler() for _ in range(3))

    def features(own: Sequences, step: str) -> Numbers:
        """The scaled features. The step "fit_transform" learns scales and kernels from these sequences."""
        series = resampled(own, length, by_time)
        scaled = getattr(of_series, step)(series.reshape(-1, series.shape[2])).reshape(series.shape).swapaxes(1, 2)
        found = getattr(kernels, step)(np.nan_to_num(scaled).astype(np.float32))
        static = getattr(of_static, step)(own.static) if own.static.size else own.static
        made: Numbers = np.nan_to_num(np.column_stack([getattr(of_kernels, step)(found), static]))
        return made

    model = RidgeClassifierCV(np.logspace(-3, 3, 10)).fit(features(data, "fit_transform"), y)
    found = model.decision_function(features(test, "transform"))
    answer = np.full((len(found), classes), -np.inf)
    answer[:, model.classes_.astype(np.int64)] = np.column_stack([-found, found]) if found.ndim == 1 else found
    return answer, None
