"""The models of the benchmark of tables. Each fit is a process, which measures its time and its memory."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Train = tuple[Any, Numbers]
"""Sequences and targets."""


class Model(NamedTuple):
    """A model of the benchmark.

    Args:
        function: "module:function" of a function of `train`, `test`, `classes`, `seed` and the settings. It returns the answers,
            (n, classes) or (n,), for sequences or steps, and the share of updates of units, or None.
        imports: modules of which neither the memory nor the time counts.
        settings: further arguments of the function.
        seeds: with how many seeds the model is trained.
        every_step: whether the model can predict a target for each step. A model that cannot has no probabilities either.
    """

    function: str
    imports: tuple[str, ...] = ("phased.estimator",)
    settings: Mapping[str, Any] = {}
    seeds: int = 2
    every_step: bool = True


FITTED, PEER = f"{__name__}:estimator", "phased_lab.bench.table_peers"
ROCKET = "aeon.transformations.collection.convolution_based", "sklearn.linear_model"
CELLS = {
    "default": Model(FITTED, seeds=5),
    "gru": Model(FITTED, settings={"cell": "gru"}, seeds=5),
    "lstm": Model(FITTED, settings={"cell": "lstm"}),
    "phased_lstm": Model(FITTED, settings={"cell": "phased_lstm"}),
}
"""The estimator with all defaults, a phased GRU, and with other cells. `gru` is the same network without gates."""
BUDGETS = {
    f"updates={share}": Model(FITTED, settings={"updates": share, "convolutions": False}) for share in (0.5, 0.25, 0.1, 0.05)
}
"""The estimator with budgets of updates, without convolutions, which make no updates."""
PEERS = {
    "lightgbm": Model(f"{PEER}:boosting", ("lightgbm", "pandas")),
    "minirocket_rows": Model(f"{PEER}:rocket", ROCKET, {"by_time": False}, every_step=False),
    "minirocket_time": Model(f"{PEER}:rocket", ROCKET, {"by_time": True}, every_step=False),
}
"""Other models, which another interpreter has."""
MODELS = CELLS | BUDGETS | PEERS

PACKAGES = ("lightgbm==4.7.0", "aeon==1.6.0")
"""aeon needs other versions of numpy and pandas than phased is tested with."""
FOLDER = Path(".peers")
COMPILE = (
    "import numpy; from aeon.transformations.collection.convolution_based import MiniRocket; "
    "MiniRocket(n_jobs=1).fit_transform(numpy.ones((9, 2, 60), numpy.float32).cumsum(2))"
)
"""MiniRocket's functions are compiled at their first call, and kept in the environment."""


def interpreter(folder: Path = FOLDER) -> str:
    """Return the Python of a virtual environment with the packages of PEERS. A missing folder is created."""
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


class Sequences(NamedTuple):
    """Arrays of `Events` for other interpreters: n sequences of S steps with V variables.

    Args:
        sequence: of each step, in order.
        time: of each step.
        value: (S, V), NaN where not measured.
        static: (n, statics), NaN where not known.
    """

    sequence: NDArray[np.int64]
    time: Numbers
    value: Numbers
    static: Numbers

    @property
    def since(self) -> Numbers:
        """Time of each step since the first step of its sequence."""
        found: Numbers = self.time - self.time[np.searchsorted(self.sequence, self.sequence)]
        return found


HERE = Path(__file__).parents[2]
"""The folder of the package `phased_lab`."""
START = f"import sys; sys.path.append({str(HERE)!r}); from {__name__} import main; main()"
"""The program of the process. The folder comes last, so that an interpreter of another environment imports its own packages."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def fitted(
    model: Model, train: Train, test: Any, python: str = sys.executable, **settings: Any
) -> tuple[Numbers, dict[str, Any]]:
    """Train and predict in a new process of an interpreter, on one thread.

    Returns:
        The answers and their costs. "cpu" is the seconds of all threads, "memory" the bytes at the peak without the imports, and
        "updates" the share of updates of units, or None.
    """
    from phased import files  # another interpreter, which imports this module, may lack what it needs

    with TemporaryDirectory() as folder:
        file, answer = Path(folder) / "fit.pickle", Path(folder) / "answer.npy"
        files.write_whole(file, pickle.dumps((train, test, {**model.settings, **settings})))
        words = [python, "-c", START, model.function, str(file), str(answer), *model.imports]
        done = subprocess.run(words, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ChildProcessError(f"the fit of {model.function} ended with exit status {done.returncode}: {last}")
        return np.load(answer), json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Fit the model that the command line names, write its answers, and print their costs."""
    name, source, out, *imports = sys.argv[1:]
    for each in imports:
        import_module(each)
    module, _, function = name.partition(":")
    run, before = getattr(import_module(module), function), peak()
    train, test, settings = pickle.loads(Path(source).read_bytes())
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        answer, updates = run(train, test, **settings)
    cpu = time.process_time() - begin
    np.save(out, np.asarray(answer, np.float64))
    print(json.dumps({"cpu": cpu, "memory": peak() - before, "updates": updates}))


def peak() -> int:
    """Peak of the resident memory of this process, in bytes.

    Linux counts the memory of the parent in `ru_maxrss` of a new process, but not in VmHWM.
    """
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def estimator(train: Train, test: Any, classes: int, seed: int, **settings: Any) -> tuple[Numbers, float]:
    """Train an estimator on the CPU, with its defaults except for `settings`, and predict. Without classes it is a regressor."""
    import torch

    from phased.estimator import PhasedClassifier, PhasedRegressor

    torch.set_num_threads(1)
    kind = PhasedClassifier if classes else PhasedRegressor
    model = kind(device="cpu", random_state=seed, **settings).fit(*train)
    if not isinstance(model, PhasedClassifier):
        return model.predict(test), model.report_.updates
    found = model.predict_proba(test)
    answer = np.zeros((len(found), classes))  # a class without a training sequence has the probability 0
    answer[:, model.classes_.astype(np.int64)] = found
    return answer, model.report_.updates
