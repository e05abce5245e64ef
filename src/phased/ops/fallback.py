"""The warning where a device's compiled code cannot run and plain PyTorch is used instead."""

from __future__ import annotations

from phased import notice
from phased.tracing import constant

_WARNED: set[str] = set()


@constant  # torch.compile calls it while it traces
def warn_once(device: str, without: str, why: str) -> None:
    """Warn that this device runs without its compiled code, once for each reason."""
    if why not in _WARNED:
        _WARNED.add(why)
        notice.warn(f"phased runs on {device} without its {without}, many times slower: {why}")
