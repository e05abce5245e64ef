"""CUDA kernels for NVIDIA GPUs. This module describes the backend; the others are imported when it is first used."""

from __future__ import annotations

from functools import cache

import torch

from phased.lazy import Functions
from phased.ops.contract import Backend
from phased.ops.operator import Operator
from phased.tracing import constant

CELLS = {"lstm": "Lstm", "gru": "Gru"}  # the kernels' structs
SHAPES = {"triangle": 0, "square": 1}  # the kernels' argument `square`

_passes, _replay, _kernels = (Functions(f"phased.ops.cuda.{name}") for name in ("passes", "replay", "kernels"))


def missing(device: torch.device | None = None) -> str | None:
    """Why the kernels cannot run on a GPU (None: the current one) and the cure, or None."""
    return _missing(None if device is None else device.index)


@constant
def _missing(index: int | None) -> str | None:
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_available() else 0
    return _missing_on(index)


@cache
def _missing_on(index: int) -> str | None:
    if not torch.cuda.is_available():
        return "torch sees no CUDA device. Run on a machine with an NVIDIA GPU and a torch built for CUDA."
    why: str | None = _kernels.missing(index)
    return why


recurrence = Operator(
    "cuda",
    _passes.forward,
    _passes.backward,
    _passes.saved_like,
    begin=_passes.begin,
    empty_state=True,
    autocast=True,
    numbers=2,
    find=_replay.find,
    replay=_replay.replay,
)
BACKEND = Backend(
    "cuda",
    "kernels for NVIDIA GPUs: open units only at leak 0",
    recurrence,
    device="cuda",
    cells=frozenset(CELLS),
    shapes=frozenset(SHAPES),
    missing=missing,
    replay=recurrence.replay,
    graphs=True,
    provides="kernels",
)
