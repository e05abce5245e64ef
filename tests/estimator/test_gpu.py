"""Estimators on a GPU: the answers of a CPU, and a trained model is on the CPU again."""

import numpy as np
import pytest

from patients import X, Y, follow
from phased.estimator import PhasedClassifier, PhasedRegressor

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:phased runs on cpu without its compiled core")]
QUICK = {"units": 8, "epochs": 4, "batch_size": 16, "dropout": 0.0, "random_state": 0}


@pytest.mark.parametrize("cell", ["phased_lstm", "phased_gru", "lstm"])
def test_a_gpu_trains_as_a_cpu_does(cell):
    there, here = (PhasedClassifier(device=device, cell=cell, **QUICK).fit(X, Y) for device in ("cuda", "cpu"))
    assert np.allclose(there.predict_proba(X), here.predict_proba(X), atol=0.02)
    assert np.allclose([e.loss for e in there.report_.curve], [e.loss for e in here.report_.curve], rtol=0.02)


def test_targets_of_every_step():
    there, here = (PhasedRegressor(device=device, **QUICK).fit(X, X.time * 10.0) for device in ("cuda", "cpu"))
    assert np.allclose(there.predict(X), here.predict(X), atol=0.05 * here.spread_)


def test_a_model_of_a_gpu_answers_on_the_cpu_too_online_and_after_loading(tmp_path):
    model = PhasedClassifier(device="cuda", **QUICK).fit(X, Y)
    on_gpu = model.predict_proba(X)
    assert {value.device.type for value in model.network_.state_dict().values()} == {"cpu"}
    model.save(tmp_path / "model")
    loaded = PhasedClassifier.load(tmp_path / "model").set_params(device="cpu")
    assert np.allclose(loaded.predict_proba(X), on_gpu, atol=1e-4)
    assert abs(follow(model, X, 3)[-1] - on_gpu[3, 1]) < 1e-4


def test_a_budget_of_updates_holds():
    model = PhasedClassifier(device="cuda", updates=0.1, **{**QUICK, "units": 32}).fit(X, Y)
    assert model.report_.updates <= 0.1
