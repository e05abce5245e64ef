"""CUDA C++ that ships as text and is compiled where it runs: by NVRTC, through cuda-core, once for each kind of GPU."""

from __future__ import annotations

import ctypes
import hashlib
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from phased.ops import kernel_cache

KERNELS = Path(__file__).with_name("kernels")
AROUND = ("schedule.cu", "weights.cu", "sums.cu")  # the kernels around the recurrence
OLDEST = (8, 0)  # copies into shared memory that a thread need not wait for


@cache
def cuda_core() -> tuple[Any, Any, str | None]:
    """cuda.core and the driver's bindings, or why they are not there."""
    try:
        return import_module("cuda.core"), import_module("cuda.bindings.driver"), None
    except ImportError as error:
        return None, None, f'cuda-core is missing ({error}). Install it: pip install "phased[cuda]".'


def compiled(architecture: str, sources: Sequence[str], macros: Mapping[str, str | int]) -> bytes:
    """Machine code for a kind of GPU, which need not be here; or an error that shows the compiler's own words."""
    core = cuda_core()[0]
    options = core.ProgramOptions(
        std="c++17",
        arch=architecture,
        include_path=[str(KERNELS)],
        define_macro=[f"PHASED_{name.upper()}={value}" for name, value in macros.items()],
        lineinfo=True,  # profilers and compute-sanitizer then name lines; the code is the same
    )
    text = "".join(f'#include "{name}"\n' for name in sources)
    try:
        code = core.Program(text, "c++", options).compile("cubin").code
    except Exception as error:
        raise RuntimeError(
            f"phased's CUDA kernels did not compile for {architecture}: {error}\n"
            'Update the NVIDIA driver and cuda-core, or use backend="adjoint".'
        ) from error
    return bytes(code)


class Slip:
    """Where a kernel's arguments are written, and how the driver is told: they always have the same types."""

    def __init__(self, arguments: Sequence[float]) -> None:
        form = struct.Struct("".join(["d" if type(value) is float else "q" for value in arguments]))
        self.write = form.pack_into
        self.memory = ctypes.create_string_buffer(form.size)
        self._size = ctypes.c_size_t(form.size)
        self.packed = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.memory), 2, ctypes.addressof(self._size), 0)


class Slips(threading.local):
    """A thread's own, one for each kernel, used again for every launch: the driver copies what they say."""

    def __init__(self) -> None:
        self.of: dict[str, Slip] = {}

    def add(self, name: str, arguments: Sequence[float]) -> Slip:
        """A new one for a kernel."""
        self.of[name] = Slip(arguments)
        return self.of[name]


class Kernels:
    """Some of the kernels, compiled for one kind of GPU with some macros set."""

    def __init__(self, architecture: str, sources: Sequence[str], macros: Mapping[str, str | int]) -> None:
        core, _, _ = cuda_core()
        self._core = core
        self._kernels: dict[tuple[str, int], int] = {}
        self._slips = Slips()
        name = f"{self._digest(architecture, sources, macros)}.cubin"
        code = kernel_cache.kept(name, lambda: compiled(architecture, sources, macros))
        self._module = core.ObjectCode.from_cubin(code)

    def _digest(self, architecture: str, sources: Sequence[str], macros: Mapping[str, str | int]) -> str:
        text = hashlib.sha256(
            repr((architecture, sources, sorted(macros.items()), self._core.__version__, torch.version.cuda)).encode()
        )
        for path in sorted(KERNELS.glob("*.[ch]*")):
            text.update(path.read_bytes())
        return text.hexdigest()[:32]

    def launch(
        self, name: str, device: int, grid: int | tuple[int, int, int], block: int, arguments: Sequence[float], shared: int = 0
    ) -> None:
        """Run a kernel on the caller's stream. Integers and addresses are 64 bits, the rest doubles.

        The driver is called directly, with the arguments as one piece of memory: cuda-core's own launch takes nearly
        twice as long (docs/decisions.md), which a step of a millisecond feels.
        """
        kernel = self._kernels.get((name, device)) or self._prepare(name, device, shared > 0)
        slip = self._slips.of.get(name) or self._slips.add(name, arguments)
        slip.write(slip.memory, 0, *arguments)
        x, y, z = (grid, 1, 1) if isinstance(grid, int) else grid
        given = (kernel, x, y, z, block, 1, 1, shared, torch._C._cuda_getCurrentRawStream(device), None, slip.packed)
        status = launcher()(*given)
        if status == NO_CONTEXT:
            attach(device)
            status = launcher()(*given)
        if status:
            raise RuntimeError(
                f'the CUDA driver did not launch "{name}": error {status}. Use backend="adjoint", and report this.'
            )

    def _prepare(self, name: str, device: int, shared: bool) -> int:
        """The kernel, allowed, if it wants shared memory, to have all there is."""
        handle = self._module.get_kernel(name).handle
        _, bindings, _ = cuda_core()
        attribute = bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        status = 0
        if shared:
            (status,) = bindings.cuKernelSetAttribute(attribute, shared_memory(device), handle, bindings.CUdevice(device))
        if int(status):
            raise RuntimeError(
                f'the CUDA driver refused shared memory for "{name}": {status}. Use backend="adjoint", and report this.'
            )
        self._kernels[name, device] = int(handle)
        return self._kernels[name, device]


@cache
def driver() -> ctypes.CDLL:
    """The CUDA driver's library, which torch has loaded already."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT


def attach(device: int) -> None:
    """Let this thread use the GPU as torch does, whose own calls do that when needed: autograd's threads come here first."""
    context = ctypes.c_void_p()
    driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    driver().cuCtxSetCurrent(context)


@cache
def launcher() -> Any:
    """The driver's cuLaunchKernel."""
    launch = driver().cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    return launch


@cache
def shared_memory(device: int) -> int:
    """Bytes of shared memory a block may have."""
    properties: Any = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)


@cache
def architecture(device: int) -> str:
    """A GPU's kind, as NVRTC names it."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@cache
def common(device: int, cell: str, real: str) -> Kernels:
    """The kernels around the recurrence, for a cell and a number type."""
    sizes = {"peephole": 0, "blocks": 1, "warps": 1, "helpers": 1, "threads": 32}
    macros: dict[str, str | int] = {"cell": f"phased::{cell}", "real": real, **sizes}
    with torch.cuda.device(device):
        return Kernels(architecture(device), AROUND, macros)


@cache
def recurrence(
    device: int, cell: str, real: str, source: str, peephole: int, blocks: int, warps: int, helpers: int, threads: int
) -> Kernels:
    """The recurrence in a file, for blocks of 128 columns, with so many warps and helpers a sequence and threads a block."""
    sizes = {"peephole": peephole, "blocks": blocks, "warps": warps, "helpers": helpers, "threads": threads}
    macros: dict[str, str | int] = {"cell": f"phased::{cell}", "real": real, **sizes}
    with torch.cuda.device(device):
        return Kernels(architecture(device), (source,), macros)


@cache
def missing(device: int) -> str | None:
    """Why the kernels cannot run on a GPU and what would cure that, or None: they have been compiled."""
    if not torch.cuda.is_available():
        return "torch sees no CUDA device. Run on a machine with an NVIDIA GPU and a torch built for CUDA."
    why = cuda_core()[2]
    if why is not None:
        return why
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        name, has, needs = torch.cuda.get_device_name(device), ".".join(map(str, capability)), ".".join(map(str, OLDEST))
        return f'{name} has compute capability {has}, the kernels need {needs} (Ampere or later). Use backend="adjoint".'
    try:
        common(device, "Lstm", "float")
    except RuntimeError as error:
        return str(error)
    return None
