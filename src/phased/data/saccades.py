"""How the camera of N-MNIST moved: three saccades in 315 ms, estimated from real recordings and the digits they show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EVERY = 5.0  # ms between the positions below
END = 315.0  # ms: the last position
LEGS = (50.0, 155.0, 260.0)  # ms: the middles of the three saccades

# The displacement of the digit on the sensor in pixels, from the position in the middle; x to the right, y down. Maximum
# likelihood estimates from 180 recordings (`phased_lab.paper.camera.calibrate`), the second saccade 1 ms later and the third 2 ms
# earlier: with the pixels of `camera.py`, the events then have the times of the real ones.
X = (
    *(-2.48, -2.48, -2.49, -2.51, -2.54, -2.57, -2.60, -2.62, -2.62, -2.59, -2.51, -2.31, -2.04, -1.74, -1.47, -1.26),
    *(-1.17, -1.12, -1.09, -1.06, -1.01, -0.96, -0.88, -0.78, -0.66, -0.49, -0.20, 0.18, 0.53, 0.87, 1.16, 1.35),
    *(1.47, 1.61, 1.77, 1.95, 2.09, 2.20, 2.26, 2.32, 2.42, 2.54, 2.64, 2.71, 2.74, 2.74, 2.66, 2.34),
    *(1.86, 1.35, 0.85, 0.31, -0.24, -0.75, -1.19, -1.53, -1.82, -2.09, -2.31, -2.42, -2.47, -2.48, -2.48, -2.48),
)
Y = (
    *(-1.73, -1.71, -1.67, -1.57, -1.38, -1.09, -0.67, -0.19, 0.41, 1.05, 1.65, 2.26, 2.69, 3.05, 3.33, 3.46),
    *(3.53, 3.56, 3.56, 3.54, 3.52, 3.49, 3.46, 3.45, 3.43, 3.39, 3.25, 2.96, 2.55, 2.03, 1.47, 0.87),
    *(0.29, -0.32, -0.82, -1.20, -1.43, -1.54, -1.57, -1.58, -1.57, -1.57, -1.56, -1.57, -1.58, -1.58, -1.60, -1.59),
    *(-1.57, -1.57, -1.57, -1.59, -1.62, -1.65, -1.69, -1.74, -1.78, -1.79, -1.79, -1.79, -1.78, -1.78, -1.77, -1.77),
)


def displacement(time: NDArray[np.float64]) -> NDArray[np.float64]:
    """The displacement of the digit at these times in ms, (N,) -> (N, 2): x and y in pixels, between the estimates linear."""
    knots = np.arange(len(X)) * EVERY
    return np.stack([np.interp(time, knots, values) for values in (X, Y)], axis=-1)
