"""A GPU whose kernels are in NumPy: what has to be replaced for it, and what has to be forgotten between tests."""

import torch

import contract
from emulator import Emulator
from phased import ops
from phased.ops.calls import Calls
from phased.ops.cuda import counting, kernels, launch, layout, replay


class H200:
    multi_processor_count = 132
    total_memory = 150 * 10**9


def common(device, cell, real):
    return Emulator(cell, real)


def recurrence(device, source, build):
    return Emulator(build.cell, build.real, build.peephole, build.tape_dtype)


def replace_gpu(patch, common=common, recurrence=recurrence):
    """The backend "cuda" runs on the CPU's memory, with these makers of kernels."""
    patch.setattr(kernels, "common", common)
    patch.setattr(kernels, "recurrence", recurrence)
    patch.setattr(kernels, "shared_memory", lambda device: 232_448)
    patch.setattr(torch.cuda, "get_device_properties", lambda device: H200)
    patch.setattr(torch.cuda, "current_device", lambda: None)
    patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    patch.setattr(ops, "choose", lambda name, device, problem=None: ops.backends()[name])
    patch.setattr(ops, "require", lambda name: None)
    patch.setattr(contract, "device_of", lambda backend: torch.device("cpu"))


def forget(patch):
    """Nothing is known of earlier layers: what is guessed is known by an address, which a layer of another test may have had."""
    counting.EXPECTED.clear()
    of_a_device = launch.compiled_for, replay.passes_of, layout.plan, layout.streamable, layout.step_plan
    for cached in of_a_device:
        cached.cache_clear()
    patch.setattr(Emulator, "ran", [])
    patch.setattr(replay, "FORWARD_PASSES", {})
    patch.setattr(replay, "CALLS", Calls(replay.KEYS, replay.ALIKE_EACH))
