from dataclasses import fields, replace

import pytest

from phased.learn.device import make_fabric
from phased.learn.loop import Training, fit
from phased_lab.runs.network import NetworkConfig
from training import SHORT, SMALL

NETWORK = NetworkConfig(units=5)


@pytest.fixture(scope="module")
def fabric():
    return make_fabric("cpu")


@pytest.fixture
def train(tmp_path, fabric):
    """Train a new network, of waves without other arguments, in a folder; returns what `fit` does, and the network."""

    def train(folder="", task=SMALL, network=NETWORK, settings=SHORT, fabric=fabric, **options):
        model = network.build(task, 0) if hasattr(network, "build") else network
        changed = {field.name: options.pop(field.name) for field in fields(Training) if field.name in options}
        return fit(task, model, replace(settings, **changed), tmp_path / folder, fabric, **options), model

    return train
