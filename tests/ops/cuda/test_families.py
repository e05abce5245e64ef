"""Compare each family of kernels with the reference, on the emulated GPU.

The GPU of a test may have few processors or little shared memory, so that a small batch has the layout of a large one.
"""

import pytest
import torch

from contract import Case, assert_contract
from emulated_gpu import H200
from emulator import Emulator
from phased.ops.cuda import kernels, launch, layout

pytestmark = pytest.mark.usefixtures("an_emulated_gpu")

SINGLE, DOUBLE, BF16, FP16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
LARGE, SMALL = 232_448, 101_376  # bytes of shared memory
CROWDED, FEW, ANY = (0.5, 1.0), (0.03, 0.1), (0.05, 0.6)  # open ratios
# Prefix of the kernels' names, processors, shared memory, (cell, units, sequences, steps), and more settings of the case.
FAMILIES = [
    ("held", 132, LARGE, ("lstm", 33, 3, 40), {"ratio": FEW, "peephole": True, "autocast": BF16}),
    ("held", 132, LARGE, ("lstm", 110, 3, 12), {"ratio": FEW}),
    ("held", 2, LARGE, ("gru", 20, 4, 140), {"ratio": ANY, "dtype": DOUBLE}),  # more steps than the 128 of a ring
    ("grouped", 2, LARGE, ("lstm", 10, 7, 70), {"ratio": ANY, "peephole": True, "autocast": BF16}),  # more than 32 steps
    ("grouped", 1, SMALL, ("gru", 72, 3, 9), {"ratio": CROWDED, "autocast": FP16}),
    ("grouped", 1, LARGE, ("lstm", 119, 3, 9), {"ratio": FEW, "peephole": True, "autocast": BF16}),
    ("grouped", 4, LARGE, ("gru", 128, 8, 9), {"ratio": CROWDED, "autocast": FP16}),
    ("grouped", 1, LARGE, ("lstm", 125, 3, 9), {"ratio": CROWDED, "peephole": True}),
    ("streamed", 4, LARGE, ("lstm", 130, 4, 34), {"ratio": FEW, "peephole": True, "autocast": BF16}),
    ("streamed", 132, LARGE, ("lstm", 1040, 2, 4), {"ratio": FEW}),  # weights do not fit into registers
    ("spread", 12, LARGE, ("gru", 41, 13, 7), {"ratio": CROWDED, "autocast": BF16}),  # several sequences per block
    ("spread", 132, LARGE, ("lstm", 70, 2, 40), {"ratio": ANY, "peephole": True, "autocast": FP16}),
    ("small_dense", 1, LARGE, ("lstm", 13, 7, 6), {"leak": 0.01, "peephole": True, "autocast": BF16}),
    ("small_dense", 2, LARGE, ("gru", 110, 5, 4), {"leak": 0.01, "autocast": FP16}),
    ("held_dense", 2, LARGE, ("lstm", 20, 5, 5), {"leak": 0.01, "dtype": DOUBLE}),
    ("streamed_dense", 2, SMALL, ("gru", 128, 3, 5), {"leak": 0.01, "autocast": BF16}),
]


@pytest.mark.parametrize("family, processors, shared, sizes, more", FAMILIES)
def test_every_family_equals_the_reference(monkeypatch, family, processors, shared, sizes, more):
    monkeypatch.setattr(H200, "multi_processor_count", processors)
    monkeypatch.setattr(kernels, "shared_memory", lambda device: shared)
    if family == "spread":  # otherwise only layers with more than 256 units
        monkeypatch.setattr(layout, "SPREAD_FROM", 1)
        monkeypatch.setattr(layout, "_held", lambda *given: None)
        monkeypatch.setattr(layout, "_is_grouped", lambda *given: False)
    monkeypatch.setattr(launch, "plan", layout.plan.__wrapped__)
    cell, units, batch, steps = sizes
    lengths = [steps - 3 * b % steps if b != 1 else 0 for b in range(batch)]
    case = Case(cell, steps, batch, 3, units, lengths=lengths, **{"dtype": SINGLE, **more}).poison_padding()
    assert_contract(case, "cuda")
    assert {f"{family}_forward", f"{family}_backward"} <= set(Emulator.ran)
    for once, again in zip(case.gradients("cuda"), case.gradients("cuda"), strict=True):
        assert all(torch.equal(once[name], again[name]) for name in once)


# Kernel, features, open ratios, number of units from which events are sorted in a launch of their own, and dtype.
SUMS = [
    ("event_sums", 5, CROWDED, 512, SINGLE),
    ("event_sums", 5, CROWDED, 512, DOUBLE),
    ("wide_event_sums", 120, CROWDED, 512, SINGLE),
    ("sorted_sums", 5, FEW, 512, SINGLE),
    ("sorted_sums", 5, FEW, 512, DOUBLE),
    ("wide_sorted_sums", 120, FEW, 512, SINGLE),
    ("unit_sums", 5, ANY, 1, SINGLE),
    ("wide_unit_sums", 120, ANY, 1, DOUBLE),
]


@pytest.mark.parametrize("name, features, ratio, sorted_from, dtype", SUMS)
def test_every_sum_over_events_equals_the_reference(monkeypatch, name, features, ratio, sorted_from, dtype):
    monkeypatch.setattr(layout, "SORTED_FROM", sorted_from)
    case = Case("lstm", 70, 4, features, 20, dtype=dtype, ratio=ratio, lengths=[70, 0, 33, 70])
    assert_contract(case.poison_padding(), "cuda")
    assert name in Emulator.ran


@pytest.mark.parametrize("units, start", [(10, 1e9), (33, -1e6), (33, 1e13)])
def test_units_are_open_when_the_reference_has_them_open_near_and_far_from_zero(units, start):
    """The sequences differ in their times, some times are whole numbers, and some gates open and close at whole numbers."""
    case = Case("lstm", 70, 3, 1, units, start=start, ratio=(0.01, 0.3), lengths=[70, 0, 33], dtype=SINGLE)
    period, shift, ratio_on = (case.leaves[name] for name in ("period", "shift", "ratio_on"))
    kind = torch.arange(units)
    period[kind % 5 == 1], ratio_on[kind % 5 == 1] = 8.0, 0.25
    shift[kind % 5 == 1] = shift[kind % 5 == 1].round()
    shift[kind % 7 == 2] = 1e12 * period[kind % 7 == 2]
    ratio_on[kind % 11 == 3], ratio_on[kind % 11 == 4], period[kind % 13 == 5] = 1.0, 1e-6, 1e-3
    case.time[:, 2] = case.time[:, 2].round()
    found, wanted = case.run("cuda"), case.run("reference")
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["period", "shift", "ratio_on"])
def test_a_gate_that_is_nan_is_open(name):
    case = Case(dtype=SINGLE)
    case.leaves[name][3] = float("nan")
    output, *final = case.run("cuda")
    assert output[0, :, [0, 1, 2, 4, 5, 6]].isfinite().all()
    assert output[..., 3].isnan().all()
    assert all(state[:, 3].isnan().all() for state in final)


@pytest.mark.parametrize("low, error", [(BF16, 0.02), (FP16, 0.004)])
def test_gates_that_are_almost_one_keep_what_is_missing_on_a_rounded_tape(low, error):
    """Many events of units that forget a little at each: gates rounded to 1 would forget nothing on the way back."""
    case = Case("lstm", steps=300, batch=1, hidden=7, ratio=(1.0, 1.0), dtype=SINGLE)
    case.leaves["bias_ih"].chunk(4)[1].add_(6.0)  # the forget gates
    _, full = case.gradients("cuda", to="final")
    case.autocast = low
    _, rounded = case.gradients("cuda", to="final")
    for name in full.keys() - {"period", "shift", "ratio_on"}:
        assert float((full[name] - rounded[name]).norm() / full[name].norm().clamp(min=1e-9)) < error, name
