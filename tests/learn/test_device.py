"""Where to train: one device needs no Lightning, and trains as Lightning's Fabric does; several processes need it."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from phased.estimator import PhasedRegressor
from phased.learn import make_fabric
from phased.learn.device import OneDevice
from training import assert_same_weights, numbers


def test_one_device_trains_without_lightning_and_several_processes_say_what_to_install(train, monkeypatch):
    for name in ("lightning", "lightning.fabric"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it raises
    random = np.random.default_rng(0)
    X = [(np.arange(5.0), random.normal(size=(5, 1))) for _ in range(20)]
    PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, [values.mean() for _, values in X])
    for precision in ("32-true", "bf16-mixed"):
        train(precision, fabric=make_fabric("cpu", precision=precision))
    with pytest.raises(ModuleNotFoundError, match=r"needs lightning.*pip install 'phased\[distributed\]'"):
        make_fabric("cpu", devices=2)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_one_device_trains_as_a_fabric_of_one_process_does(train, precision):
    from lightning.fabric import Fabric

    fabrics = {
        "device": make_fabric("cpu", precision=precision),
        "fabric": Fabric(accelerator="cpu", devices=1, precision=precision),
    }
    assert isinstance(fabrics["device"], OneDevice)
    trained = [train(name, fabric=fabric) for name, fabric in fabrics.items()]
    assert numbers(trained[0][0].curve) == numbers(trained[1][0].curve)
    assert_same_weights(trained[0][1], trained[1][1])


def test_a_scaled_step_is_the_step_of_unscaled_gradients_and_none_of_infinite_ones():
    device = OneDevice(torch.device("cpu"), "16-mixed")
    parameter = nn.Parameter(torch.ones(2))
    _, optimizer = device.setup(nn.Identity(), torch.optim.SGD([parameter], lr=0.5))
    for factor, gradient, after in ((2.0, 2.0, 0.0), (torch.inf, torch.inf, 0.0)):
        parameter.grad = None
        device.backward((parameter * factor).sum())
        device.unscale(optimizer)
        assert parameter.grad.tolist() == [gradient] * 2
        device.step(optimizer)
        assert parameter.tolist() == [after] * 2


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="device must be one of 'auto', 'cpu', 'cuda', got 'tpu'"):
        make_fabric("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device must be 'cpu' here, got 'cuda', which PyTorch does not find"):
            make_fabric("cuda")
        assert make_fabric("auto").device.type == "cpu"
