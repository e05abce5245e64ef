"""The precision of matrix products: that of an autocast region, or that of their operands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Inside, autocast rounds nothing on this type of device. If it is off already, a null context is faster."""
    is_on = device != "meta" and torch.is_autocast_enabled(device)  # torch has no autocast for meta tensors
    return torch.autocast(device, enabled=False) if is_on else nullcontext()


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of the autocast region around the call, or None; None for meta tensors."""
    if device.type == "meta":
        return None
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
