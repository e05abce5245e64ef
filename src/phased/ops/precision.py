"""Matrix products in the precision of their operands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Inside, autocast rounds nothing on this type of device. If it is off already, a null context is faster."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
