"""Training in two processes that torchrun starts: the losses of one process, and one model folder."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from patients import X, patients, write_tables
from phased.estimator import PhasedClassifier, PhasedRegressor, training
from phased.learn import device

pytest.importorskip("lightning")
TESTS = Path(__file__).parents[1]
OPTIONS = {"units": 8, "epochs": 3, "batch_size": 8, "device": "cpu"}
SCRIPT = """
import sys
from estimator.test_processes import trained
for name, model in trained().items():
    model.save(f"{sys.argv[1]}/{name}")
"""


def trained():
    """A model for each kind of target. The last training batch has one sequence, which leaves nothing to the second process."""
    events, y = patients(63)  # 57 = 7 * 8 + 1 sequences to train on
    return {
        "classes": PhasedClassifier(**OPTIONS, random_state=0).fit(events, y),
        "numbers": PhasedRegressor(**OPTIONS, random_state=0, cell="gru", refit=False).fit(events, np.arange(63.0)),
        "steps": PhasedRegressor(**OPTIONS, random_state=0, refit=False).fit(X, X.time * 2.0),
    }


def torchrun(folder, *arguments):
    """Run a command in two processes, and return what they print."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *map(str, arguments)]
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_train_as_one_does_and_the_first_one_writes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    torchrun(tmp_path, "script.py", tmp_path)
    for name, alone in trained().items():
        together = type(alone).load(tmp_path / name)
        assert together.report_.part == alone.report_.part
        one, two = ([(epoch.loss, epoch.test_loss) for epoch in model.report_.curve] for model in (alone, together))
        assert np.allclose(two, one, rtol=1e-5)
        events = X if name == "steps" else patients(63)[0]
        assert np.allclose(together._answer(events), alone._answer(events), rtol=1e-3, atol=1e-3)


def test_the_command_fit_runs_in_two_processes(tmp_path):
    write_tables(tmp_path)
    options = ["--labels", "l.csv", "--unit", "h", "--device", "cpu", "--epochs", "2", "--out", "m", "--checkpoint", "kept"]
    printed = torchrun(tmp_path, "-m", "phased", "fit", "t.csv", *options)
    assert printed.count("to train on") == 1
    assert (tmp_path / "m" / "config.json").is_file()
    assert (tmp_path / "kept" / "checkpoint.pt").is_file()


def test_several_processes_need_lightning_and_devices_without_a_number(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "lightning.fabric", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"several processes, .* needs lightning, .* pip install 'phased\[distributed\]'"
    ):
        PhasedClassifier(device="cpu").fit(X, np.arange(len(X)) % 2)
    monkeypatch.setattr(device, "check_device", lambda name: ("cuda", "1"))
    with pytest.raises(ValueError, match="device must have no number in several processes, got 'cuda:1'"):
        device.together("cuda:1")


def test_an_interrupted_training_in_several_processes_leaves_no_model(monkeypatch):
    def stopped(*given, **how):
        raise KeyboardInterrupt

    class Two(device.OneDevice):
        world_size = 2

    monkeypatch.setattr(training, "fit", stopped)
    monkeypatch.setattr(training, "together", lambda name: Two(device.torch.device("cpu")))
    with pytest.raises(KeyboardInterrupt):
        PhasedClassifier(**OPTIONS).fit(X, np.arange(len(X)) % 2)
