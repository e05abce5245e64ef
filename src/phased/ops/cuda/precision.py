"""Matrix products in the precision of their operands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast() -> AbstractContextManager[Any]:
    """Inside, autocast rounds nothing. If it is off already, a null context is faster."""
    return torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled("cuda") else nullcontext()
