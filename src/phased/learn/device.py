"""Where to train: Lightning Fabric on a CPU, a GPU, or several processes and machines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from phased import check

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def make_fabric(device: str = "auto", devices: Any = 1, **options: Any) -> Fabric:
    """Fabric for "auto" (CUDA if there is any, else the CPU), "cpu", "cuda" or "cuda:1"; the options are Fabric's own."""
    from lightning.fabric import Fabric
    from lightning_utilities.core import rank_zero

    kind, index = check_device(device)
    # On each start it advises to round float32 products to tensor cores' precision, which would change the numbers.
    rank_zero.log.setLevel(logging.WARNING)
    return Fabric(accelerator=kind, devices=[int(index)] if index else devices, **options)


def check_device(device: str) -> tuple[str, str]:
    """Which kind it is, "cpu" or "cuda", and its number if there is one; a ValueError if there is no such device here."""
    kind, colon, index = device.partition(":")
    check.choice("device", kind, ("auto", "cpu", "cuda"))
    if colon and kind != "cuda":
        raise ValueError(f"device must have no number except for 'cuda', got {device!r}. Use {kind!r}.")
    if colon and not (index.isascii() and index.isdigit()):
        raise ValueError(f"device must be 'cuda' or 'cuda:' and a number, got {device!r}. Use 'cuda:0' for the first GPU.")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be 'cpu' here, got 'cuda', which PyTorch does not find. Use 'auto' to take what there is.")
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f"device must be at most 'cuda:{torch.cuda.device_count() - 1}' here, got {device!r}.")
    return kind, index
