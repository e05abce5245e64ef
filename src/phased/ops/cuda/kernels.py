"""CUDA kernels: compiled once for each kind of GPU, stored in a folder on disk, loaded, and launched through the driver."""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from phased import files, notice, tracing
from phased.ops.cuda.constants import Build
from phased.ops.native import core

OLDEST = (8, 0)  # compute capability: kernels copy to shared memory asynchronously
NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
KERNELS = Path(__file__).parents[2] / "kernels"
FOLDERS = (KERNELS / "cuda", KERNELS / "shared")
AROUND = ("schedule.cu", "weights.cu", "sums.cu", "sorted_sums.cu", "unit_sums.cu")  # the kernels around the recurrence
# O_NOFOLLOW refuses a link; with O_NONBLOCK a pipe in the file's place does not block.
READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


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


def stored(name: str, make: Callable[[], bytes]) -> bytes:
    """The kernel of this name; one that is not in the cache is made and stored. Without a usable cache every process makes it."""
    folder = private(files.cache_folder())
    if folder is None:
        return make()
    path = folder / name
    code = read_sealed(path)
    if code is None:
        code = make()
        with suppress(OSError):  # a full disk
            path.unlink(missing_ok=True)  # a link or a pipe would be written to
            files.write_whole(path, files.seal(code), mode=0o600)
    return code


def private(folder: Path) -> Path | None:
    """The folder, created if it does not exist; None, with a warning, if other users can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    if is_own(status):
        return folder
    notice.warn(
        f"phased compiles its GPU kernels again in each process: the folder that keeps them, '{folder}', must belong to the "
        f"current user and be writable by that user alone. Run: chmod 700 '{folder}', or set PHASED_CACHE to another folder.",
        RuntimeWarning,
    )
    return None


def read_sealed(path: Path) -> bytes | None:
    """The content of a sealed file; None if it is absent, not this user's regular file, or damaged."""
    try:
        with os.fdopen(os.open(path, READ), "rb") as file:
            status = os.fstat(file.fileno())
            return files.unseal(file.read()) if stat.S_ISREG(status.st_mode) and is_own(status) else None
    except (OSError, files.Damaged):
        return None


def is_own(status: os.stat_result) -> bool:
    """Whether it belongs to this user and only this user can write to it. Windows has no such bits: its access lists decide."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def argument_form(arguments: Sequence[float]) -> str:
    """How arguments are packed: integers and addresses as 64 bits, the rest as doubles."""
    return "".join(["d" if type(value) is float else "q" for value in arguments])


def not_launched(name: str, status: int) -> RuntimeError:
    """The error for a launch that the driver has refused."""
    return RuntimeError(f'the CUDA driver did not launch "{name}": error {status}. Use backend="eager", and report this.')


class Buffer:
    """The memory of a kernel's arguments, whose types are the same at every launch, and its description for the driver."""

    def __init__(self, arguments: Sequence[float]) -> None:
        form = struct.Struct(argument_form(arguments))
        self.write = form.pack_into
        self.memory = ctypes.create_string_buffer(form.size)
        self._size = ctypes.c_size_t(form.size)
        self.pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.memory))  # of a kernel whose only parameter is a struct
        self.packed = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.memory), 2, ctypes.addressof(self._size), 0)


class Buffers(threading.local):
    """A thread's own buffers, one for each kernel. Every launch uses the same: the driver copies the arguments."""

    def __init__(self) -> None:
        self.of: dict[str, Buffer] = {}

    def add(self, name: str, arguments: Sequence[float]) -> Buffer:
        """A new buffer for a kernel."""
        self.of[name] = Buffer(arguments)
        return self.of[name]


class Kernels:
    """Some of the kernels, compiled for one kind of GPU with some macros set."""

    def __init__(self, architecture: str, sources: Sequence[str], macros: Mapping[str, str | int]) -> None:
        self._kernels: dict[tuple[str, int], int] = {}
        self._buffers = Buffers()
        name = f"{digest(architecture, sources, macros)}.cubin"
        code = stored(name, lambda: compiled(architecture, sources, macros))
        self._module = cuda_core()[0].ObjectCode.from_cubin(code)

    def launch(
        self,
        name: str,
        device: int,
        grid: int | tuple[int, int, int],
        block: int,
        arguments: Sequence[float],
        shared: int = 0,
        together: bool = False,
    ) -> None:
        """Run a kernel on the caller's stream.

        `together`: all blocks run at once, so that they can wait for each other; the kernel's only parameter is a struct.

        The driver is called directly, with the arguments in one buffer: cuda-core's own launch takes nearly twice as long
        (docs/decisions.md), which is noticeable in a step of a millisecond.
        """
        kernel = self.handle(name, device, shared > 0)
        buffer = self._buffers.of.get(name) or self._buffers.add(name, arguments)
        buffer.write(buffer.memory, 0, *arguments)
        x, y, z = (grid, 1, 1) if isinstance(grid, int) else grid
        parameters = (kernel, x, y, z, block, 1, 1, shared, tracing.current_raw_stream(device))
        start = launcher(together)
        given = (*parameters, buffer.pointers) if together else (*parameters, None, buffer.packed)
        status = start(*given)
        if status == NO_CONTEXT:
            attach(device)
            status = start(*given)
        if status:
            raise not_launched(name, status)

    def handle(self, name: str, device: int, shared: bool) -> int:
        """The driver's handle of a kernel, which may have `shared` memory."""
        return self._kernels.get((name, device)) or self._prepare(name, device, shared)

    def _prepare(self, name: str, device: int, shared: bool) -> int:
        """The kernel's handle; if it uses dynamic shared memory, it may have all that a block can have."""
        handle = self._module.get_kernel(name).handle
        _, bindings, _ = cuda_core()
        attribute = bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        status = 0
        if shared:
            (status,) = bindings.cuKernelSetAttribute(attribute, shared_memory(device), handle, bindings.CUdevice(device))
        if int(status):
            raise RuntimeError(
                f'the CUDA driver refused shared memory for "{name}": {status}. Use backend="eager", and report this.'
            )
        self._kernels[name, device] = int(handle)
        return self._kernels[name, device]


@cache
def common(device: int, cell: str, real: str) -> Kernels:
    """The kernels around the recurrence, for a cell and a number type."""
    with torch.cuda.device(device):
        return Kernels(architecture(device), AROUND, Build(cell, real).macros())


@cache
def recurrence(device: int, source: str, build: Build) -> Kernels:
    """The recurrence in a file."""
    with torch.cuda.device(device):
        return Kernels(architecture(device), (source,), build.macros())


def missing(device: int) -> str | None:
    """Why the kernels cannot run on a GPU and the cure, or None if they have been compiled."""
    why = cuda_core()[2]
    if why is not None:
        return why
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        name, has, needs = torch.cuda.get_device_name(device), ".".join(map(str, capability)), ".".join(map(str, OLDEST))
        return f'{name} has compute capability {has}, the kernels need {needs} (Ampere or later). Use backend="eager".'
    try:
        common(device, "Lstm", "float")
    except RuntimeError as error:
        return str(error)
    return None
