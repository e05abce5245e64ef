"""Measuring as on another CPU: the core and PyTorch are restricted to one instruction set, onnxruntime is not."""

from __future__ import annotations

import os

# Environment variables that PyTorch, oneDNN and MKL read when loaded. They have no SSE2 kernels. Their lowest set is SSE4.
PEERS = {
    "avx512": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}


NAMES = ("PHASED_INSTRUCTION_SET", *PEERS["avx2"])


def variables(instructions: str) -> dict[str, str]:
    """The variables that restrict a new process to an instruction set."""
    return {"PHASED_INSTRUCTION_SET": instructions, **PEERS[instructions]}


def environment(instructions: str) -> dict[str, str]:
    """Return the environment of this process with the variables of one instruction set."""
    return {name: value for name, value in os.environ.items() if name not in NAMES} | variables(instructions)


def restricted_variables() -> dict[str, str]:
    """The variables that are set in this process, for the record of a measurement."""
    return {name: os.environ[name] for name in NAMES if name in os.environ}
