"""The core on ARM: cross-compiled and run by qemu, where both are installed, and held to the reference."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from contract import Case, assert_same
from phased.gate import SHAPES

HERE = Path(__file__).parent
KERNELS = HERE.parents[2] / "src" / "phased" / "kernels"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
# The engines' flags, linked statically.
FLAGS = "-std=c++17 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd -Wno-psabi -static -pthread"

pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"{COMPILER} and {EMULATOR} are not installed"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    made = tmp_path_factory.mktemp("arm") / "core"
    sources = [HERE / "arm.cpp", KERNELS / "cpu" / "batch.cpp", KERNELS / "cpu" / "engine.cpp"]
    include = [f"-I{KERNELS / folder}" for folder in ("cpu", "shared")]
    subprocess.run([COMPILER, *FLAGS.split(), "-DPHASED_ISA=baseline", *include, *sources, "-o", made], check=True)
    return made


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("hidden, shape, start", [(7, "triangle", 0.0), (33, "square", -1e6), (110, "triangle", 1.7e9)])
def test_the_core_on_arm_equals_the_reference(program, cell, leak, dtype, hidden, shape, start):
    case = Case(cell, steps=40, hidden=hidden, leak=leak, shape=shape, dtype=dtype, start=start, lengths=[40, 0, 17])
    problem = case.problem("reference", case.leaves)
    real, whole = (np.float32, np.float64)[dtype == torch.float64], np.int64
    to_output = torch.randn(40, 3, hidden, dtype=dtype)
    sizes = [int(cell == "gru"), list(SHAPES).index(shape), 3, 40, case.inputs, hidden, 2]
    parts = [whole(np.dtype(real).itemsize), np.array(sizes, whole), np.float64(leak)]
    parts += [problem.input.transpose(0, 1), problem.time.T.double(), problem.lengths, *problem.state, *problem.weights[:4]]
    parts += [*problem.gate.parameters(), to_output]
    given = b"".join(p.contiguous().numpy().tobytes() if isinstance(p, torch.Tensor) else p.tobytes() for p in parts)
    done = subprocess.run([EMULATOR, program], input=given, stdout=subprocess.PIPE, check=True).stdout

    stacked = len(problem.weights.ih)
    shapes = {"output": (40, 3, hidden), "h_n": (3, hidden), "h_0": (3, hidden), "gate": (3, hidden)}
    shapes |= {"products": (40, 3, 4, hidden), "weight_ih": (stacked, case.inputs), "weight_hh": (stacked, hidden)}
    shapes |= {"bias_ih": (stacked,)}
    got, at = {}, 0
    for name, size in shapes.items():
        kind = np.dtype(np.float64 if name == "gate" else real)
        got[name] = torch.from_numpy(np.frombuffer(done, kind, int(np.prod(size)), at).reshape(size).copy())
        at += got[name].numel() * kind.itemsize
    assert at == len(done)

    leaves = case.on("reference")
    output, h_n, *_ = case.run("reference", leaves)
    wanted = [leaves[name] for name in ("h_0", "period", "shift", "ratio_on", "weight_ih", "weight_hh", "bias_ih")]
    found = torch.autograd.grad(output, wanted, to_output, allow_unused=True)  # a square gate has no slope
    to_h, *to_gate, to_ih, to_hh, to_bias = (torch.zeros_like(w) if d is None else d for w, d in zip(wanted, found, strict=True))
    want = {"output": output.detach(), "h_n": h_n.detach(), "h_0": to_h, "gate": torch.stack(to_gate)}
    if leak:  # the products' gradients are left to the caller, which adds them up
        rows = got["products"].sum((0, 1))[: 4 if cell == "lstm" else 3]
        got["bias_ih"] = rows.flatten()
        want |= {"bias_ih": to_bias}
    else:
        want |= {"weight_ih": to_ih, "weight_hh": to_hh, "bias_ih": to_bias}
    assert_same({name: got[name] for name in want}, want, dtype, "on ARM")
