"""Measuring as on another CPU: this project's core and the libraries it is compared with, held to one instruction set."""

from __future__ import annotations

import os

# What PyTorch, oneDNN and MKL read when they are loaded. They have no SSE2 kernels: their least is SSE4.
PEERS = {
    "avx512": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}


def environment(instructions: str) -> dict[str, str]:
    """The variables that hold a new process to an instruction set."""
    return {"PHASED_INSTRUCTION_SET": instructions, **PEERS[instructions]}


def is_held(instructions: str) -> bool:
    """Whether this process was started with them."""
    return all(os.environ.get(name) == value for name, value in environment(instructions).items())


def held() -> dict[str, str]:
    """Those of the variables that are set, for the record of a measurement."""
    names = sorted({name for each in PEERS for name in environment(each)})
    return {name: os.environ[name] for name in names if name in os.environ}
