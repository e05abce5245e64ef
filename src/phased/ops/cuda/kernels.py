"""Compiled kernels: loaded from the cache or compiled, and launched."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import cache

import torch

from phased import tracing
from phased.ops.cuda import compiler, constants, driver, kernel_cache

OLDEST = (8, 0)  # compute capability: kernels copy to shared memory asynchronously


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
        name = f"{compiler.digest(architecture, sources, macros)}.cubin"
        code = kernel_cache.kept(name, lambda: compiler.compiled(architecture, sources, macros))
        self._module = compiler.cuda_core()[0].ObjectCode.from_cubin(code)

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
        start = driver.launcher(together)
        given = (*parameters, buffer.pointers) if together else (*parameters, None, buffer.packed)
        status = start(*given)
        if status == driver.NO_CONTEXT:
            driver.attach(device)
            status = start(*given)
        if status:
            raise not_launched(name, status)

    def handle(self, name: str, device: int, shared: bool) -> int:
        """The driver's handle of a kernel, which may have `shared` memory."""
        return self._kernels.get((name, device)) or self._prepare(name, device, shared)

    def _prepare(self, name: str, device: int, shared: bool) -> int:
        """The kernel's handle; if it uses dynamic shared memory, it may have all that a block can have."""
        handle = self._module.get_kernel(name).handle
        _, bindings, _ = compiler.cuda_core()
        attribute = bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        status = 0
        if shared:
            (status,) = bindings.cuKernelSetAttribute(attribute, driver.shared_memory(device), handle, bindings.CUdevice(device))
        if int(status):
            raise RuntimeError(
                f'the CUDA driver refused shared memory for "{name}": {status}. Use backend="eager", and report this.'
            )
        self._kernels[name, device] = int(handle)
        return self._kernels[name, device]


@cache
def common(device: int, cell: str, real: str) -> Kernels:
    """The kernels around the recurrence, for a cell and a number type."""
    unused = {"peephole": 0, "blocks": 1, "warps": 1, "helpers": 1, "threads": 32}
    with torch.cuda.device(device):
        return Kernels(driver.architecture(device), compiler.AROUND, constants.macros(cell, real, None, **unused))


@cache
def recurrence(
    device: int,
    cell: str,
    real: str,
    tape_dtype: torch.dtype | None,
    source: str,
    peephole: int,
    blocks: int,
    warps: int,
    helpers: int,
    threads: int,
    beyond: int = 0,
) -> Kernels:
    """The recurrence in a file, for blocks of columns, with so many warps and helpers a sequence and threads a block.

    `beyond`: whether some weights are not in shared memory, where there is a kernel for either.
    """
    macros = constants.macros(cell, real, tape_dtype, peephole, blocks, warps, helpers, threads, beyond)
    with torch.cuda.device(device):
        return Kernels(driver.architecture(device), (source,), macros)


@cache
def missing(device: int) -> str | None:
    """Why the kernels cannot run on a GPU and the cure, or None if they have been compiled."""
    if not torch.cuda.is_available():
        return "torch sees no CUDA device. Run on a machine with an NVIDIA GPU and a torch built for CUDA."
    why = compiler.cuda_core()[2]
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
