"""The warning for a device whose compiled code cannot run, where plain PyTorch takes its place."""

from __future__ import annotations

import warnings

import torch

_WARNED: set[str] = set()


def warn_once(device: torch.device, without: str, why: str) -> None:
    """Warn that this device runs without its compiled code, once for each reason."""
    if why not in _WARNED:
        _WARNED.add(why)
        warnings.warn(f"phased runs on {device} without its {without}, many times slower: {why}", stacklevel=3)
