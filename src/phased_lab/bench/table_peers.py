"""Other models of the public tables, in a virtual environment of their own: LightGBM on summaries, and MiniRocket with ridge."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phased_lab.bench.table_summaries import Sequences, of_sequences, of_steps, resampled

PACKAGES = ("lightgbm==4.7.0", "aeon==1.6.0")
"""aeon needs other versions of numpy and pandas than phased is tested with."""
FOLDER = Path(".peers")
ROUNDS, PATIENCE, HELD_OUT = 500, 50, 0.1
SETTINGS = {"learning_rate": 0.05, "feature_fraction": 0.5, "num_threads": 1, "verbosity": -1}
"""A higher rate ends after one round on sepsis, where few steps are positive."""
COMPILE = (
    "import numpy; from aeon.transformations.collection.convolution_based import MiniRocket; "
    "MiniRocket(n_jobs=1).fit_transform(numpy.ones((9, 2, 60), numpy.float32).cumsum(2))"
)
"""MiniRocket's functions are compiled at their first call, and kept in the environment."""
KERNELS, SHORT, LONG = 6000, 60, 300
"""Kernels of MiniRocket, and the steps that sequences are resampled to: SHORT if no sequence is longer."""

Numbers = NDArray[np.float64]


def interpreter(folder: Path = FOLDER) -> str:
    """Return the Python of a virtual environment with the packages. It is made if the folder is not there."""
    python = folder.absolute() / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not folder.exists():
        install = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
        try:
            for words in ([sys.executable, "-m", "venv", str(folder)], install, [str(python), "-c", COMPILE]):
                subprocess.run(words, check=True, capture_output=True, text=True)
        except BaseException as error:  # also Ctrl-C: a half of an environment would be taken for a whole one
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, subprocess.CalledProcessError):
                raise ChildProcessError(
                    f"'{folder}' cannot be made with {', '.join(PACKAGES)}: {error.stderr.strip()}"
                ) from error
            raise
    return str(python)


def boosting(train: tuple[Sequences, Numbers], test: Sequences, classes: int, seed: int) -> tuple[Numbers, None]:
    """Train LightGBM on summaries, for as many rounds as are best on a tenth of the training sequences, and then on all."""
    import lightgbm

    data, y = train
    every_step = len(y) != len(data.static)
    features: Callable[[Sequences], NDArray[Any]] = of_steps if every_step else of_sequences
    x, known = features(data), ~np.isnan(y)
    count = len(data.static)
    drawn = np.random.default_rng(seed).permutation(count)[: max(1, round(HELD_OUT * count))]
    held_out = np.isin(data.sequence if every_step else np.arange(count), drawn)
    objective = {0: "regression_l1", 2: "binary"}.get(classes, "multiclass")
    settings = {**SETTINGS, "objective": objective, "seed": seed, **({"num_class": classes} if objective == "multiclass" else {})}

    def dataset(rows: NDArray[np.bool_]) -> Any:
        return lightgbm.Dataset(x[rows], y[rows], free_raw_data=False)

    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    valid = [dataset(known & held_out)]
    first = lightgbm.train(settings, dataset(known & ~held_out), ROUNDS, valid_sets=valid, callbacks=[stop])
    model = lightgbm.train(settings, dataset(known), max(1, first.best_iteration))
    answer = model.predict(features(test))
    return (np.column_stack([1 - answer, answer]) if objective == "binary" else answer), None


def rocket(train: tuple[Sequences, Numbers], test: Sequences, classes: int, by_time: bool, seed: int) -> tuple[Numbers, None]:
    """Train a ridge classifier on MiniRocket's features of resampled sequences, and on static variables."""
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.preprocessing import StandardScaler

    data, y = train
    length = SHORT if np.diff(data.offset).max() <= SHORT else LONG
    series, later = (resampled(each, length, by_time) for each in (data, test))
    centre, spread = moments(series, (0, 2))
    known, new = (np.nan_to_num((each - centre) / spread).astype(np.float32) for each in (series, later))
    kernels, scaler = MiniRocket(n_kernels=KERNELS, n_jobs=1, random_state=seed), StandardScaler()
    x, unseen = scaler.fit_transform(kernels.fit_transform(known)), scaler.transform(kernels.transform(new))
    centre, spread = moments(data.static, 0)
    static, other = (np.nan_to_num((each - centre) / spread) for each in (data.static, test.static))
    model = RidgeClassifierCV(np.logspace(-3, 3, 10)).fit(np.column_stack([x, static]), y)
    found = model.decision_function(np.column_stack([unseen, other]))
    answer = np.full((len(found), classes), -np.inf)
    answer[:, model.classes_.astype(np.int64)] = np.column_stack([-found, found]) if found.ndim == 1 else found
    return answer, None


def moments(of: Numbers, axis: int | tuple[int, ...]) -> tuple[Numbers, Numbers]:
    """Return the mean and the deviation of known values, 0 without a value and 1 without a deviation."""
    known = ~np.isnan(of)
    count = np.maximum(known.sum(axis, keepdims=True), 1)
    mean: Numbers = np.where(known, of, 0).sum(axis, keepdims=True) / count
    deviation: Numbers = np.sqrt(np.where(known, (of - mean) ** 2, 0).sum(axis, keepdims=True) / count)
    return mean, np.where(deviation > 0, deviation, 1.0)
