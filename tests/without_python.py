"""The core in a program of its own, `without_python.cpp`: compiled for any machine, and held to the reference."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from contract import Case, assert_same
from phased.cell import CELLS

KERNELS = Path(__file__).parents[1] / "src" / "phased" / "kernels"
# The engines' flags.
FLAGS = ["-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp-simd", "-Wno-psabi", "-pthread"]


def compiled(program: Path, compiler: str, *flags: str, kernels: Path = KERNELS) -> Path:
    """The program, from the core's sources in this folder."""
    sources = [Path(__file__).with_suffix(".cpp"), kernels / "cpu" / "batch.cpp", kernels / "cpu" / "engine.cpp"]
    include = [f"-I{kernels / folder}" for folder in ("cpu", "shared")]
    subprocess.run([compiler, *FLAGS, *flags, "-DPHASED_ISA=baseline", *include, *sources, "-o", program], check=True)
    return program


def numbers(table: str, kernels: Path = KERNELS) -> dict[str, int]:
    """The names of the entries of a table in `tables.h`, `Cells` or `Shapes`, with their numbers."""
    (entries,) = re.findall(rf"using {table} = Table<(.*)>;", (kernels / "cpu" / "tables.h").read_text(encoding="utf-8"))
    return {name.lower(): number for number, name in enumerate(entries.split(", "))}


def assert_equals_reference(command: Sequence[str | Path], case: Case, kernels: Path = KERNELS) -> None:
    """Output, states and gradients of a problem, for random gradients to the output."""
    problem = case.problem("reference", case.leaves)
    steps, batch, hidden, dtype = case.steps, case.batch, case.hidden, case.dtype
    real, whole = (np.float32, np.float64)[dtype == torch.float64], np.int64
    to_output = torch.randn(steps, batch, hidden, dtype=dtype)
    kinds = numbers("Cells", kernels)[case.cell], numbers("Shapes", kernels)[case.shape]
    parts = [
        whole(np.dtype(real).itemsize),
        np.array([*kinds, batch, steps, case.inputs, hidden, 2], whole),
        np.float64(case.leak),
    ]
    parts += [problem.input.transpose(0, 1), problem.time.T.double(), problem.lengths, *problem.state, *problem.weights[:4]]
    parts += [*problem.gate.parameters(), to_output]
    given = b"".join(p.contiguous().numpy().tobytes() if isinstance(p, torch.Tensor) else p.tobytes() for p in parts)
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout

    stacked, gates = len(problem.weights.ih), CELLS[case.cell].gates
    shapes = {"output": (steps, batch, hidden), "h_n": (batch, hidden), "h_0": (batch, hidden), "gate": (3, hidden)}
    shapes |= {"products": (steps, batch, 4, hidden), "weight_ih": (stacked, case.inputs), "weight_hh": (stacked, hidden)}
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
    want = {"output": output.detach(), "h_n": h_n.detach(), "h_0": to_h, "gate": torch.stack(to_gate), "bias_ih": to_bias}
    if case.leak:  # the products' gradients are left to the caller, which adds them up
        got["bias_ih"] = got["products"].sum((0, 1))[:gates].flatten()
    else:
        want |= {"weight_ih": to_ih, "weight_hh": to_hh}
    assert_same({name: got[name] for name in want}, want, dtype, "of the program")
