"""The backends of the CPU give the bits that are written in `bits.json`, for every instruction set, with one thread.

Bits differ between instruction sets, versions of torch and compilers, so each list says whose it is; where there is none, a test
is skipped. After an intended change, write them again: `PHASED_WRITE_NETS=1 pytest tests/nets/test_bits.py`.
"""

import json
import os
import platform
import re
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from contract import Case, backend_parameters
from patients import known, measured, patients
from phased import PhasedGRU, PhasedLSTM, Stream, updates
from phased.estimator import PhasedClassifier
from phased.init import LogUniform
from phased.ops.native import core
from streams import LAYERS, build, states

GOLDEN = Path(__file__).with_name("bits.json")
on_the_cpu = pytest.mark.parametrize("backend", [p for p in backend_parameters(reference=True) if p.values[0] != "cuda"])
KINDS = {
    "plain": {},
    "square": {"shape": "square"},
    "ragged": {"lengths": [11, 0, 4]},
    "33 units": {"hidden": 33, "batch": 5},
    "110 units, rarely open": {"hidden": 110, "ratio": (0.01, 0.05), "steps": 40},
    "no bias, one feature": {"bias": False, "inputs": 1},
    "40 features": {"inputs": 40, "hidden": 20},
    "integer times": {"integer_time": True, "start": 1e9},
}


def digest(arrays):
    """Of numbers, sizes and types, in order."""
    found = sha256()
    for array in arrays:
        array = np.asarray(array.detach() if isinstance(array, torch.Tensor) else array)
        found.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return found.hexdigest()[:16]


def whose(backend, fields=("vendor_id",)):
    """What the bits of a backend depend on, with these fields of the processor."""
    processor = Path("/proc/cpuinfo")
    known = processor.read_text() if processor.exists() else ""
    values = [re.search(rf"^{field}\s*:\s*(\w+)", known, re.MULTILINE) for field in fields]
    parts = [
        f"torch {torch.__version__}",
        torch.backends.cpu.get_cpu_capability(),
        platform.machine(),
        *(value[1] if value else "" for value in values),
    ]
    if backend == "cpu":
        compiler = re.search(rb"GCC: \([^)]*\) ([\d.]+)", Path(core.__file__).read_bytes())
        parts.append(f"GCC {compiler[1].decode()}" if compiler else "another compiler")
        parts.append(backend.instructions)
    return " ".join([*parts, backend])


def check(backend, problems, *fields):
    """The golden file has the digests of these problems' arrays."""
    golden, key = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}, whose(backend, ("vendor_id", *fields))
    found = {name: digest(arrays) for name, arrays in problems.items()}
    if os.environ.get("PHASED_WRITE_NETS"):
        golden.setdefault(key, {}).update(found)
        GOLDEN.write_text(json.dumps(golden, indent=0, sort_keys=True) + "\n")
    if key not in golden:
        pytest.skip(f"no bits are written for {key}")
    assert found == {name: golden[key][name] for name in found}


def trained(case, backend):
    """Results and gradients."""
    return [part for parts in case.gradients(backend) for part in parts.values()]


@on_the_cpu
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_final_states_and_gradients(backend, kind):
    settings = product(("lstm", "gru"), (0.0, 0.01), ("float32", "float64"))
    check(
        backend,
        {
            f"{kind}: {cell}, leak {leak}, {real}": trained(
                Case(cell, leak=leak, dtype=getattr(torch, real), **KINDS[kind]), backend
            )
            for cell, leak, real in settings
        },
    )


@on_the_cpu
def test_peepholes(backend):
    check(backend, {f"peepholes, leak {leak}": trained(Case(leak=leak, peephole=True), backend) for leak in (0.0, 0.01)})


@on_the_cpu
@pytest.mark.parametrize("make", [PhasedLSTM, PhasedGRU])
def test_layers(backend, make):
    rnn = make(3, 9, 2, bidirectional=True, period=LogUniform(2, 40), ratio_on=0.3, leak=0.1, backend=str(backend))
    x, time = torch.randn(30, 4, 3), torch.rand(30, 4, dtype=torch.float64).cumsum(0) * 5
    output, final = rnn(x, time, lengths=[30, 2, 0, 17])
    output.square().sum().backward()
    gradients = [parameter.grad for parameter in rnn.parameters() if parameter.grad is not None]
    rnn.eval()
    check(backend, {make.__name__: [output, *states(final), *gradients, rnn(x, time)[0], updates(rnn, time)]})


@on_the_cpu
@pytest.mark.parametrize("name", LAYERS)
def test_streams(backend, name):
    found = {}
    for real in (torch.float32, torch.float64):
        stream = Stream(build(LAYERS[name], real, backend=str(backend)))
        x, time = torch.randn(40, 3, dtype=real), torch.rand(40, dtype=torch.float64).cumsum(0) * 5
        pushed = [stream.push(*event) for event in zip(x[:9].numpy(), time[:9].tolist(), strict=True)]
        found[f"stream of {name}, {real}"] = [*pushed, stream.run(x[9:], time[9:]), *states(stream.state)]
    check(backend, found)


@on_the_cpu
def test_an_estimator(backend):
    X, y = patients()
    model = PhasedClassifier(units=8, epochs=2, batch_size=16, random_state=0).fit(X, y)
    model.network_.rnn.backend = str(backend)
    online = model.online(static=known(X, 5))
    pushed = [online.push(time, values) for time, values in measured(X, 5)]
    # Its matrix products are those of MKL, which has other kernels for other processors of a vendor.
    check(backend, {"estimator": [model.predict_proba(X), pushed]}, "cpu family", "model")
