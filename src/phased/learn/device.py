"""Where to train: Lightning Fabric on a CPU, a GPU, or several processes and machines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from phased import check

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def make_fabric(device: str = "auto", devices: Any = 1, **options: Any) -> Fabric:
    """A Lightning Fabric for `fit`.

    Args:
        device: "auto" (CUDA if available, else the CPU), "cpu", "cuda" or one GPU by its number, "cuda:1".
        devices: the number of processes, as `Fabric` takes it; ignored where `device` has a number.
        options: further arguments of `Fabric`, such as `strategy` or `num_nodes`.

    Returns:
        The Fabric, not launched.

    Raises:
        ValueError: there is no such device.
    """
    from lightning.fabric import Fabric
    from lightning_utilities.core import rank_zero

    kind, index = check_device(device)
    # On each start Lightning advises a lower precision of float32 products on tensor cores, which would change the results.
    rank_zero.log.setLevel(logging.WARNING)
    return Fabric(accelerator=kind, devices=[int(index)] if index else devices, **options)


def check_device(device: str) -> tuple[str, str]:
    """The type, "cpu" or "cuda", and the number or ""; a ValueError if there is no such device."""
    if not isinstance(device, str):
        raise TypeError(f"device must be 'auto', 'cpu' or 'cuda', got {check.kind(device)}. Pass it as text.")
    kind, colon, index = device.partition(":")
    check.choice("device", kind, ("auto", "cpu", "cuda"))
    if colon and kind != "cuda":
        raise ValueError(f"device must have no number except for 'cuda', got {device!r}. Use {kind!r}.")
    if colon and not (index.isascii() and index.isdigit()):
        raise ValueError(f"device must be 'cuda' or 'cuda:' and a number, got {device!r}. Use 'cuda:0' for the first GPU.")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be 'cpu' here, got 'cuda', which PyTorch does not find. Use 'auto' or 'cpu'.")
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f"device must be at most 'cuda:{torch.cuda.device_count() - 1}' here, got {device!r}.")
    return kind, index
