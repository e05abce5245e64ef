"""Every launch of a kernel, as the driver is given it, with addresses as places in tensors. Kernels that count events run."""

import gc
import struct
from functools import partial
from hashlib import sha256

import torch

from emulated_gpu import forget, replace_gpu
from emulator import Emulator
from phased import tracing
from phased.ops.cuda import kernels, steps
from phased.ops.cuda.constants import Build
from phased.ops.cuda.kernels import Buffers, Kernels
from recorded_driver import Recorder, unpacked

ADDRESSES = range(1 << 40, 1 << 47)
REPORTING = ("add_up", "fill")  # the kernels whose last two arguments are a slot for the number of events and a mark
COUNTING = ("find_open", *REPORTING)  # launches depend on the results of these alone


class Replayed:
    """A CUDA graph, without CUDA: its work is done again."""

    def __init__(self, work):
        self.replay = work


class Stream:
    cuda_stream = 0


class Traced(Kernels):
    """Kernels that were never compiled for a GPU: `Kernels` packs and launches them, or the core does."""

    def __init__(self, trace, emulator, key):
        self._buffers = Buffers()
        self.trace, self.emulator, self.key = trace, emulator, key

    def handle(self, name, device, shared):
        self.trace.handles.append((self, name))
        return len(self.trace.handles) - 1 + (shared << 32)


class Trace(Recorder):
    """What the driver was asked for. `names`: of the tensors that a problem has, by their addresses."""

    def __init__(self, patch):
        super().__init__()
        self.lines, self.handles, self.tensors, self.storages = [], [], [], []
        replace_gpu(patch, self.common, self.recurrence)
        forget(patch)
        patch.setattr(tracing, "current_raw_stream", lambda index: 5)
        patch.setattr(kernels, "functions", lambda: self.driver)
        patch.setattr(kernels, "launcher", lambda together: partial(self.start, together=together))
        patch.setattr(torch.cuda, "current_stream", lambda device: Stream)
        patch.setattr(steps, "record", Replayed)
        patch.setattr(steps, "GRAPHS", steps.Graphs())
        for name in ("mm", "bmm"):
            patch.setattr(torch, name, partial(self.multiply, name, getattr(torch, name)))

    def common(self, device, cell, real):
        return Traced(self, Emulator(kernels.AROUND, Build(cell, real)), f"common {cell} {real} None  0 ()")

    def recurrence(self, device, source, build):
        cell, real, tape_dtype, peephole, *sizes = build
        known = tuple(sizes[:-1] if "step" in source else sizes)  # single steps have no weights beyond shared memory
        return Traced(self, None, f"recurrence {cell} {real} {tape_dtype} {source} {peephole} {known}")

    def name(self, tensors):
        """Call these tensors by their names."""
        for name, tensor in tensors.items():
            self.hold(tensor.untyped_storage(), name)

    def hold(self, storage, name=None):
        """Give a storage a name or the next number, and keep it, so that no other has its address."""
        self.storages.append(storage)
        self.tensors.append((storage.data_ptr(), storage.nbytes(), name or f"#{len(self.tensors)} of {storage.nbytes()} bytes"))

    def place(self, value):
        """A number, or an address as a place in a tensor."""
        if value not in ADDRESSES:
            return repr(value)
        found = next((each for each in self.tensors if each[0] <= value <= each[0] + each[1]), None)
        if found is None:
            storages = [
                tensor.untyped_storage() for tensor in gc.get_objects() if type(tensor) in (torch.Tensor, torch.nn.Parameter)
            ]
            self.hold(next(each for each in storages if each.data_ptr() <= value <= each.data_ptr() + each.nbytes()))
            found = self.tensors[-1]
        return f"{found[2]} + {value - found[0]}"

    def start(self, kernel, x, y, z, block, _y, _z, shared, stream, pointers, packed=None, together=False):
        traced, name = self.handles[kernel & (1 << 32) - 1]
        data = bytes(traced._buffers.of[name].memory) if together else unpacked(packed)
        arguments = struct.unpack(f"{len(data) // 8}q", data)  # doubles too, by their bits
        reports = name in REPORTING and arguments[-1] > 0  # to a slot with a mark, which are this launch's alone
        shown = [self.place(value) for value in (arguments[:-2] if reports else arguments)] + ["a slot", "a mark"] * reports
        size = f"{x, y, z} of {block}, {shared} bytes{', together' * together}{', may share' * bool(kernel >> 32)}"
        self.lines.append(f"{name}: {traced.key}: {size}, on {stream}: {', '.join(shown)}")
        if name in COUNTING:
            traced.emulator.start(name, (x, y, z), block, data, shared)
        return 0

    def multiply(self, name, function, *tensors, out):
        shown = [f"{tuple(t.shape)} {t.stride()} {t.dtype} {self.place(t.data_ptr())}" for t in (*tensors, out)]
        self.lines.append(f"{name}: {', '.join(shown)}")
        return function(*tensors, out=out)

    def words(self):
        """The lines, each as the kernel's name and a digest; and those since the last call are forgotten."""
        lines, self.lines = self.lines, []
        return lines, [f"{line.partition(':')[0]}:{sha256(line.encode()).hexdigest()[:4]}" for line in lines]
