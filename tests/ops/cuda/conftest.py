"""A GPU whose kernels are in NumPy, for tests of what Python passes to them."""

import pytest
import torch

import contract
from emulator import Emulator
from phased import ops
from phased.ops.cuda import count, driver, kernels, known, layout, repeated


class H200:
    multi_processor_count = 132
    total_memory = 150 * 10**9


@pytest.fixture(autouse=True)
def _passes_are_listed_and_nothing_is_known_of_earlier_layers(monkeypatch):
    """What is guessed is known by an address, which a layer of another test may have had; tests may change what is listed."""
    count.EXPECTED.clear()
    for cached in (repeated.lists_of, layout.plan, layout.streamable, layout.step_plan):  # made for the device of another test
        cached.cache_clear()
    monkeypatch.setattr(known, "LISTED_AFTER", 0)
    monkeypatch.setattr(known, "_PASSES", {})
    monkeypatch.setattr(known, "_ENTRIES", {})


@pytest.fixture(scope="module")
def a_gpu_in_numpy():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "common", lambda device, cell, real: Emulator(cell, real))
        patch.setattr(kernels, "recurrence", lambda device, *given: Emulator(*given[:2], peephole=given[4], tape_dtype=given[2]))
        patch.setattr(driver, "shared_memory", lambda device: 232_448)
        patch.setattr(torch.cuda, "get_device_properties", lambda device: H200)
        patch.setattr(torch.cuda, "current_device", lambda: None)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        patch.setattr(ops, "choose", lambda name, device, problem=None: ops.backends()[name])
        patch.setattr(ops, "require", lambda name: None)
        patch.setattr(contract, "device_of", lambda backend: torch.device("cpu"))
        yield
