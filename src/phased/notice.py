"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

OURS = ("torch.", "phased.", "sklearn.", "joblib.")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line that called into phased, directly or through torch or scikit-learn."""
    frame: FrameType = sys._getframe(0)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
