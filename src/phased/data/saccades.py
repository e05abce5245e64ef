"""How the camera of N-MNIST moved: three saccades in 315 ms, estimated from real recordings and the digits they show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EVERY = 5.0  # ms between the positions below
END = 315.0  # ms: the last position
LEGS = (50.0, 155.0, 260.0)  # ms: the middles of the three saccades

# The displacement of the digit on the sensor in pixels, from the position in the middle; x to the right, y down. Maximum
# likelihood estimates from 180 recordings: see `phased.paper.camera.calibrate`.
X = (
    *(-2.48, -2.48, -2.49, -2.51, -2.54, -2.57, -2.60, -2.62, -2.62, -2.59, -2.51, -2.31, -2.03, -1.73, -1.46, -1.25),
    *(-1.17, -1.12, -1.09, -1.06, -1.01, -0.95, -0.87, -0.77, -0.64, -0.46, -0.15, 0.24, 0.59, 0.93, 1.21, 1.38),
    *(1.49, 1.63, 1.79, 1.97, 2.10, 2.20, 2.26, 2.32, 2.41, 2.53, 2.63, 2.70, 2.74, 2.75, 2.72, 2.46),
    *(2.00, 1.50, 1.02, 0.51, -0.03, -0.56, -1.04, -1.42, -1.70, -1.99, -2.25, -2.39, -2.47, -2.48, -2.48, -2.48),
)
Y = (
    *(-1.73, -1.71, -1.67, -1.57, -1.38, -1.09, -0.67, -0.19, 0.41, 1.05, 1.65, 2.27, 2.70, 3.06, 3.34, 3.47),
    *(3.53, 3.56, 3.56, 3.54, 3.52, 3.49, 3.46, 3.45, 3.43, 3.38, 3.23, 2.91, 2.47, 1.93, 1.36, 0.75),
    *(0.19, -0.40, -0.87, -1.23, -1.44, -1.54, -1.57, -1.58, -1.57, -1.57, -1.56, -1.57, -1.58, -1.58, -1.60, -1.60),
    *(-1.57, -1.57, -1.56, -1.58, -1.60, -1.64, -1.67, -1.72, -1.77, -1.79, -1.79, -1.79, -1.78, -1.78, -1.77, -1.77),
)


def displacement(time: NDArray[np.float64]) -> NDArray[np.float64]:
    """The displacement of the digit at these times in ms, (N,) -> (N, 2): x and y in pixels, between the estimates linear."""
    knots = np.arange(len(X)) * EVERY
    return np.stack([np.interp(time, knots, values) for values in (X, Y)], axis=-1)
