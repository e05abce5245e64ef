"""A lip reader as a folder; see `phased.model_folder`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from phased.model_folder import Kind
from phased.parameters import is_of_time
from phased_lab.lipreader.card import card
from phased_lab.lipreader.config import Config

SHIPPED = Path(__file__).parent / "grid"


def in_half(name: str, value: Tensor) -> torch.dtype:
    """The dtype of a parameter in the file: weights take half the space; period, shift and open ratio keep their precision."""
    return torch.float16 if value.dtype == torch.float32 and not is_of_time(name.rpartition(".")[2]) else value.dtype


KIND = Kind("phased lip reader", version=1, config=Config, card=card, build=Config.build, stored=in_half)
