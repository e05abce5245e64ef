"""CUDA C++ that ships as text and is compiled where it runs: by NVRTC, through cuda-core, once for each kind of GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

KERNELS = Path(__file__).parents[2] / "kernels"
FOLDERS = (KERNELS / "cuda", KERNELS / "shared")
AROUND = ("schedule.cu", "weights.cu", "sums.cu", "sorted_sums.cu", "unit_sums.cu")  # the kernels around the recurrence


@cache
def cuda_core() -> tuple[Any, Any, str | None]:
    """cuda.core and the driver's bindings, or why they are missing."""
    try:
        return import_module("cuda.core"), import_module("cuda.bindings.driver"), None
    except ImportError as error:
        return None, None, f'cuda-core is missing ({error}). Install it: pip install "phased[cuda]".'


def compiled(architecture: str, sources: Sequence[str], macros: Mapping[str, str | int]) -> bytes:
    """Machine code for a kind of GPU, present or not; a failure raises with the compiler's message."""
    core = cuda_core()[0]
    options = core.ProgramOptions(
        std="c++17",
        arch=architecture,
        include_path=[str(folder) for folder in FOLDERS],
        define_macro=[f"PHASED_{name.upper()}={value}" for name, value in macros.items()],
        lineinfo=True,  # for profilers and compute-sanitizer; the code is the same
    )
    text = "".join(f'#include "{name}"\n' for name in sources)
    try:
        code = core.Program(text, "c++", options).compile("cubin").code
    except Exception as error:
        raise RuntimeError(
            f"phased's CUDA kernels did not compile for {architecture}: {error}\n"
            'Update the NVIDIA driver and cuda-core, or use backend="eager".'
        ) from error
    return bytes(code)


def digest(architecture: str, sources: Sequence[str], macros: Mapping[str, str | int]) -> str:
    """A name for what `compiled` gives: it changes with the sources, their macros, the compiler and the kind of GPU."""
    version = cuda_core()[0].__version__
    text = hashlib.sha256(repr((architecture, sources, sorted(macros.items()), version, torch.version.cuda)).encode())
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.[ch]*")):
            text.update(path.read_bytes())
    return text.hexdigest()[:32]
