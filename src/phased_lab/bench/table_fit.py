"""A fit of one model in a process of its own, which measures its time and its memory."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parents[2]
"""The folder of the package `phased_lab`."""
START = f"import sys; sys.path.append({str(HERE)!r}); from {__name__} import main; main()"
"""The program of the process. The folder comes last, so that an interpreter of another environment imports its own packages."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Fit(NamedTuple):
    """A model to train, and sequences to predict.

    Args:
        model: "module:function" of a function of `train`, `test` and `settings` that returns the answers and the share of updates
            of units, or None. It is imported by the process.
        imports: modules of which neither the memory nor the time counts.
        train: sequences and targets.
        test: sequences.
        settings: arguments of the function.
    """

    model: str
    imports: Sequence[str]
    train: tuple[Any, NDArray[np.float64]]
    test: Any
    settings: dict[str, Any]


class Fitted(NamedTuple):
    """The answers of a model, and what they cost.

    Args:
        answer: (n, classes) or (n,), for sequences or steps.
        seconds: of training and prediction.
        cpu: seconds of all threads.
        memory: bytes at the peak, without the bytes of the imports.
        updates: share of updates of units, or None.
    """

    answer: NDArray[np.float64]
    seconds: float
    cpu: float
    memory: int
    updates: float | None


def in_process(fit: Fit, interpreter: str = sys.executable) -> Fitted:
    """Train and predict in a new process of an interpreter, on one thread."""
    from phased import files  # the other interpreter, which imports this module, may lack what it needs

    with TemporaryDirectory() as folder:
        file, answer = Path(folder) / "fit.pickle", Path(folder) / "answer.npy"
        files.write_whole(file, pickle.dumps(fit[2:]))
        words = [interpreter, "-c", START, fit.model, str(file), str(answer), *fit.imports]
        done = subprocess.run(words, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ChildProcessError(f"the fit of {fit.model} ended with exit status {done.returncode}: {last}")
        return Fitted(np.load(answer), **json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Fit the model that the command line names, write its answers, and print the measurements."""
    model, source, out, *imports = sys.argv[1:]
    for name in imports:
        import_module(name)
    module, _, function = model.partition(":")
    run, before = getattr(import_module(module), function), peak()
    train, test, settings = pickle.loads(Path(source).read_bytes())
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        answer, updates = run(train, test, **settings)
    measured = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    np.save(out, np.asarray(answer, np.float64))
    print(json.dumps({**measured, "memory": peak() - before, "updates": updates}))


def peak() -> int:
    """Peak of the resident memory of this process, in bytes.

    Linux counts the memory of the parent in `ru_maxrss` of a new process, but not in VmHWM.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return 1024 * int(lines["VmHWM"].split()[0])
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def estimator(
    train: tuple[Any, NDArray[np.float64]], test: Any, classes: int, seed: int, **settings: Any
) -> tuple[NDArray[np.float64], float]:
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
