"""What only the compiled core has: threads, instruction sets, and that nothing breaks without it."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from contract import Case, assert_contract
from instructions import CoreOn
from phased import PhasedGRU, PhasedLSTM, Stream, ops
from phased.init import LogUniform
from phased.ops import native
from phased.ops.cpu.passes import CoreCall, is_dense
from phased.ops.native import MISSING, core

needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def step(cls, leak):
    torch.manual_seed(0)
    rnn = cls(3, 21, period=LogUniform(2, 30), ratio_on=0.2, learn_ratio_on=True, leak=leak, backend="cpu")
    x = torch.randn(60, 9, 3, requires_grad=True)
    time = torch.rand(60, 9, dtype=torch.float64).cumsum(0)
    output, _ = rnn(x, time, lengths=[60, 0, 7, 59, 31, 2, 60, 44, 1])
    output.square().sum().backward()
    return [output.detach(), x.grad, *(p.grad for p in rnn.parameters())]


@needs_core
@pytest.mark.parametrize("backend", CoreOn.each(), ids=lambda each: each.instructions)
@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_the_same_threads_give_the_same_bits_and_other_threads_the_same_numbers(backend, cls, leak, threads):
    threads(1)
    alone = step(cls, leak)
    for count in (2, 3, 16):
        threads(count)
        once, again = step(cls, leak), step(cls, leak)
        assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
        for a, b in zip(once, alone, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@needs_core
@pytest.mark.parametrize("backend", CoreOn.each(), ids=lambda each: each.instructions)
@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("features, units", [(3, 21), (70, 7), (5, 64)])
def test_an_input_that_needs_no_gradient_changes_no_bit_of_the_others(backend, cls, dtype, features, units):
    rnn = cls(features, units, period=LogUniform(2, 30), ratio_on=0.2, learn_ratio_on=True, backend="cpu", dtype=dtype)
    x, time = torch.randn(70, 4, features, dtype=dtype), torch.rand(70, 4, dtype=torch.float64).cumsum(0)
    found = []
    for needed in (True, False):
        rnn.zero_grad()
        output, _ = rnn(x.clone().requires_grad_(needed), time, lengths=[70, 0, 33, 1])
        output.square().sum().backward()
        found.append([p.grad.clone() for p in rnn.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def core_alone(code, **variables):
    """Run code in a process of its own that loads the core alone, without torch, which takes longer."""
    load = (
        "from importlib.util import module_from_spec, spec_from_file_location as found;"
        f"spec = found('phased._core', {core.__file__!r}); core = module_from_spec(spec); spec.loader.exec_module(core);"
    )
    environment = os.environ | variables
    return subprocess.run([sys.executable, "-c", load + code], env=environment, capture_output=True, text=True, check=False)


SETS = "print('loaded', flush=True); print(core.instruction_set(), *core.instruction_sets())"


@needs_core
@pytest.mark.parametrize("name", ["baseline", "avx2", "avx512"])
def test_a_variable_limits_the_instruction_set(name):
    _, used, *available = core_alone(SETS, PHASED_INSTRUCTION_SET=name).stdout.split()
    assert available[-1] == "baseline"
    assert used == (name if name in available else available[0])


@needs_core
def test_an_unknown_instruction_set_raises_at_first_use():
    done = core_alone(SETS, PHASED_INSTRUCTION_SET="axv2")
    assert done.stdout.strip() == "loaded"
    assert "ValueError: PHASED_INSTRUCTION_SET must be avx512, avx2 or baseline, got axv2." in done.stderr


@needs_core
def test_a_process_that_ends_with_cached_launches_prints_nothing():
    """Caches that Python does not clear at its end never give their references back."""
    done = core_alone("import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(core.Launches()))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_empty_variable_is_as_if_it_were_not_set(monkeypatch):
    monkeypatch.setenv("PHASED_INSTRUCTION_SET", "")
    assert native.load() == (core, MISSING)
    assert "PHASED_INSTRUCTION_SET" not in os.environ


@needs_core
@pytest.mark.parametrize("backend", CoreOn.each(), ids=lambda each: each.instructions)
@pytest.mark.parametrize("start", [0.0, -1e6, 1.7e9, 1e12, 1e13, 1e17])
def test_near_and_far_the_rough_phase_misses_no_open_unit(backend, start):
    """Units that open at the very times of the samples, many times over: their phase is 0, or a rounding before it."""
    periods = torch.tensor([0.1, 1 / 3, 0.7, 1.0, 3.0, 1e3], dtype=torch.float64)
    rnn = PhasedLSTM(1, 6, period=periods, shift=0.0, ratio_on=1e-3, leak=0.0, gate="square", backend="cpu").eval()
    steps = torch.arange(300, dtype=torch.float64).unsqueeze(1)
    for period in periods:
        time = start + steps * period
        rnn.backend = "cpu"
        output, _ = rnn(torch.ones(300, 1, 1), time)
        rnn.backend = "reference"
        torch.testing.assert_close(output, rnn(torch.ones(300, 1, 1), time)[0])


@needs_core
@pytest.mark.parametrize("backend", CoreOn.each(), ids=lambda each: each.instructions)
def test_times_beyond_counting_are_no_trouble(backend):
    """Times of 1e18 with a period of 1e-3 are 1e21 cycles: more than a double counts one by one."""
    rnn = PhasedLSTM(1, 3, period=1e-3, ratio_on=0.5, leak=0.0, backend="cpu")
    reference = PhasedLSTM(1, 3, leak=0.0, backend="reference")
    reference.load_state_dict(rnn.state_dict())
    time = torch.tensor([0.0, 1e6, 1e12, 1e18, 1e18]).double().unsqueeze(1)
    x = torch.randn(5, 1, 1)
    torch.testing.assert_close(rnn(x, time)[0], reference(x, time)[0])


@needs_core
@pytest.mark.parametrize("hidden", [1, 6, 7, 33, 110, 129])
def test_the_contract_tests_reach_both_engines_of_the_core(hidden):
    """At leak 0 the usual case takes the sparse engine; a mean open ratio above BREAK_EVEN takes the dense one."""
    sparse, dense = Case(hidden=hidden), Case(hidden=hidden, ratio=(0.8, 1.0))
    assert not is_dense(CoreCall(sparse.problem("cpu", sparse.leaves)))
    assert is_dense(CoreCall(dense.problem("cpu", dense.leaves)))
    assert_contract(dense, "cpu")


@needs_core
def test_the_cpu_backend_refuses_other_devices():
    rnn = PhasedLSTM(2, 3, backend="cpu", device="meta")
    with pytest.raises(ValueError, match=r'backend="cpu" needs CPU tensors, got meta\. Call'):
        rnn(torch.zeros(4, 2, device="meta"), torch.zeros(4, device="meta"))


WARNING = "phased runs on cpu without its compiled core, many times slower"


def test_without_the_core_everything_else_works_and_asking_for_it_names_the_cure():
    code = (
        "import sys; sys.modules['phased._core'] = None;"
        "import torch; from phased import PhasedLSTM, Stream; rnn = PhasedLSTM(2, 4, leak=0.0);"
        "x, t = torch.randn(9, 2), torch.arange(9); rnn(x, t)[0].sum().backward();"
        "h = Stream(rnn.eval()).run(x, t); torch.testing.assert_close(h, rnn(x, t)[0].detach()); print('fine');"
        "PhasedLSTM(2, 4, backend='cpu')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr
    assert 'backend="cpu" cannot run here: the compiled core is missing' in done.stderr
    assert "Install a C++17 compiler (GCC or Clang), then: pip install --force-reinstall --no-deps " in done.stderr
    assert done.stderr.count(f"UserWarning: {WARNING}") == 1, "the layer was used first"


def test_without_the_core_a_stream_that_is_used_first_warns_once_with_a_cure(monkeypatch):
    gone = replace(ops.cpu.BACKEND, missing=lambda device=None: "the test took it away. Give it back.")
    monkeypatch.setattr(ops, "BACKENDS", (ops.REFERENCE, ops.eager.BACKEND, gone))
    monkeypatch.setattr(ops, "_WARNED", set())
    rnn, x = PhasedLSTM(2, 4), (torch.randn(9, 2), torch.arange(9))
    with pytest.warns(UserWarning, match=rf"{WARNING}: the test took it away\. Give it back\."):
        Stream(rnn)
    rnn(*x)  # a second warning would be an error
