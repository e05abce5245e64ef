"""The CUDA driver, called directly, and what a GPU offers."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import torch

from phased.ops.native import core

NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT


@cache
def driver() -> ctypes.CDLL:
    """The CUDA driver's library, which torch has loaded already."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def attach(device: int) -> None:
    """Make torch's context of a GPU current in this thread: autograd's threads have none before torch's first call in them."""
    context = ctypes.c_void_p()
    driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    driver().cuCtxSetCurrent(context)


@cache
def launcher(together: bool = False) -> Any:
    """The driver's cuLaunchKernel; or cuLaunchCooperativeKernel, which starts no block before all can run."""
    launch = driver().cuLaunchCooperativeKernel if together else driver().cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * (2 if together else 3)]
    return launch


OF_GRAPHS = (
    "cuGraphCreate",
    "cuGraphAddKernelNode_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuThreadExchangeStreamCaptureMode",
)


@cache
def functions() -> Any:
    """The driver's functions for the compiled core; without those of graphs if it lacks one."""
    found = [getattr(driver(), name, None) for name in ("cuLaunchKernel", *OF_GRAPHS)]
    addresses = [0 if function is None else ctypes.cast(function, ctypes.c_void_p).value for function in found]
    assert core is not None
    return core.Driver(addresses if all(addresses) else addresses[:1])


@cache
def shared_memory(device: int) -> int:
    """Bytes of shared memory that a block may have."""
    properties: Any = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)


@cache
def architecture(device: int) -> str:
    """A GPU's kind, as NVRTC names it."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"
