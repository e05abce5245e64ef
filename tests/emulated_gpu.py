"""Replace the GPU by an emulator that runs the kernels on the CPU."""

import shutil
import sys

import pytest
import torch

import contract
from emulator import Emulator
from phased import ops
from phased.ops.calls import Calls
from phased.ops.cuda import counting, kernels, launch, layout, replay
from phased.ops.cuda.constants import Build


class H200:
    multi_processor_count = 132
    total_memory = 150 * 10**9


def common(device, cell, real):
    return Emulator(kernels.AROUND, Build(cell, real))


def recurrence(device, source, build):
    return Emulator((source,), build)


def replace_gpu(patch, common=common, recurrence=recurrence):
    """Run the backend "cuda" on tensors of the CPU. `common` and `recurrence` make the kernels."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("kernels on a CPU need g++ and contexts of POSIX")
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
    of_layout = "plan", "streamable", "step_plan", "_too_large", "sums_plan", "sorted_sums_plan", "gate_sums_plan"
    of_a_device = launch.compiled_for, replay.passes_of, counting.runs_uncounted, *(getattr(layout, name) for name in of_layout)
    for cached in of_a_device:
        cached.cache_clear()
    patch.setattr(Emulator, "ran", [])
    patch.setattr(replay, "FORWARD_PASSES", {})
    patch.setattr(replay, "CALLS", Calls(replay.KEYS, replay.ALIKE_EACH))
