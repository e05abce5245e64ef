"""The compiled core `phased._core`: loaded once, or the reason why it is missing."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

KINDS = {torch.float32: "32", torch.float64: "64"}  # the suffix of the core's functions and classes for a dtype


def load() -> tuple[Any, str | None]:
    """The compiled core, or why there is none and the cure."""
    if not os.environ.get("PHASED_INSTRUCTION_SET", "set"):  # empty: as if it were not set
        del os.environ["PHASED_INSTRUCTION_SET"]
    try:
        return import_module("phased._core"), None
    except ImportError as error:
        return None, f"the compiled core is missing ({error}). Install a C++17 compiler (GCC or Clang), then: {reinstall()}"


def reinstall() -> str:
    """The command that builds the core. A released package must not come from pip's cache, which holds the one without a core."""
    checkout = Path(__file__).parents[3]
    if (checkout / "CMakeLists.txt").is_file():
        return f"pip install --force-reinstall --no-deps --editable {checkout}"
    return "pip install --force-reinstall --no-deps --no-cache-dir --no-binary phased phased"


core, MISSING = load()


def missing(device: torch.device | None = None) -> str | None:
    """Why the core cannot run and the cure, or None."""
    return MISSING
