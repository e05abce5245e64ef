"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

OURS = ("torch.", "phased.")


def warn(message: str) -> None:
    """Issue a UserWarning for the line that called into torch or phased."""
    frame: FrameType = sys._getframe(0)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
