"""Made-up recordings and small classifiers, for the tests of what runs on them."""

import numpy as np

from phased import PhasedLSTM, Uniform
from phased.classifier import EventEmbedding
from phased.data.recordings import NMNIST, Recording, Sensor
from phased.layer import PhasedRNN
from phased.learn import Readout


def recording(events: int = 500, seed: int = 0, sensor: Sensor = NMNIST, duration: int = 300_000, start: int = 0) -> Recording:
    """Events at random pixels and times, in microseconds."""
    random = np.random.default_rng(seed)
    x, y = (random.integers(side, size=events).astype(np.int16) for side in sensor)
    time = start + np.sort(random.integers(duration, size=events)).astype(np.int64)
    return Recording(x, y, random.random(events) < 0.5, time, sensor)


def assert_equal(one: Recording, other: Recording) -> None:
    """Both recordings have the same events of the same camera."""
    assert one.sensor == other.sensor
    for name in ("x", "y", "polarity", "time"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def network(
    units: int = 12,
    layers: int = 1,
    cell: type[PhasedRNN] = PhasedLSTM,
    sensor: Sensor = NMNIST,
    outputs: int = 10,
    mean: bool = False,
    hidden: int = 0,
    **options,
) -> Readout:
    """A small untrained network for events, in milliseconds."""
    encoder = EventEmbedding(sensor, size=6)
    options = {"period": 40.0, "shift": Uniform(0, 40), "ratio_on": 0.3} | options
    rnn = cell(encoder.features, units, layers, **options)
    return Readout(rnn, outputs, encoder=encoder, mean=mean, hidden=hidden).eval()
