"""Measuring as on another CPU: this project's core and PyTorch, held to one instruction set. onnxruntime keeps its own choice."""

from __future__ import annotations

import os

# What PyTorch, oneDNN and MKL read when they are loaded. They have no SSE2 kernels: their least is SSE4.
PEERS = {
    "avx512": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}


NAMES = ("PHASED_INSTRUCTION_SET", *PEERS["avx2"])


def variables(instructions: str) -> dict[str, str]:
    """The variables that hold a new process to an instruction set."""
    return {"PHASED_INSTRUCTION_SET": instructions, **PEERS[instructions]}


def environment(instructions: str) -> dict[str, str]:
    """This process's environment with these variables and none of another instruction set."""
    return {name: value for name, value in os.environ.items() if name not in NAMES} | variables(instructions)


def held() -> dict[str, str]:
    """The variables that are set: for the record of a measurement."""
    return {name: os.environ[name] for name in NAMES if name in os.environ}
