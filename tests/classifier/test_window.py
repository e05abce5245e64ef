"""A window of a larger sensor."""

import numpy as np
import pytest

from phased.classifier import crop
from phased.data.recordings import NMNIST, Sensor
from recordings import recording


def test_a_window_has_exactly_the_events_inside_it():
    large = recording(5000, sensor=Sensor(60, 50))
    small = crop(large, 20, 10, NMNIST)
    inside = (large.x >= 20) & (large.x < 54) & (large.y >= 10) & (large.y < 44)
    assert 0 < inside.sum() < 5000
    assert small.sensor == NMNIST
    for name, offset in (("x", 20), ("y", 10), ("time", 0), ("polarity", 0)):
        assert np.array_equal(getattr(small, name) + offset, getattr(large, name)[inside])


@pytest.mark.parametrize("corner", [(27, 0), (0, 17), (-1, 0)])
def test_a_window_that_leaves_the_sensor_is_refused(corner):
    with pytest.raises(ValueError, match=r"must lie within the recording's 60 x 50, .* Choose x up to 26 and y up to 16"):
        crop(recording(sensor=Sensor(60, 50)), *corner, NMNIST)


def test_a_sensor_smaller_than_the_window_is_refused():
    with pytest.raises(ValueError, match="must have at least 34 x 34 pixels, got 20 x 50"):
        crop(recording(sensor=Sensor(20, 50)), 0, 0, NMNIST)
