"""Which backend runs, and why another cannot."""

import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch

from contract import device_of, each_backend_and_reference
from phased import PhasedLSTM, Stream, ops
from phased.ops.native import MISSING

# Trains and streams, and prints what that has imported. Then calls operators by their names, as an exported graph does.
LAZY = """
import sys, torch
before = set(sys.modules)
from phased import PhasedLSTM, Stream
rnn = PhasedLSTM(2, 3)
rnn(torch.randn(4, 1, 2), torch.arange(4.0).unsqueeze(1))[0].sum().backward()
Stream(rnn.eval()).push([0.5, 1.0], 0.0)
print(*set(sys.modules) - before)
def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device="meta")
weights = [zeros(12, 2), zeros(12, 3), zeros(12), zeros(12)]
gate, time = [zeros(3, dtype=torch.float64)] * 3, zeros(4, 1, dtype=torch.float64)
for name in ("eager", "cuda"):
    operator = getattr(torch.ops.phased, name)
    results = operator("lstm", "triangle", 0.01, zeros(4, 1, 2), time, [zeros(1, 3)] * 2, weights, gate, None, None, True)
    print(tuple(results[0].shape), len(results[2]), f"phased.ops.{name}.passes" in sys.modules)
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_chooses_a_backend_that_can_run(device):
    why = ops.backends()["cuda"].missing()
    with pytest.warns(UserWarning, match="without its kernels") if device == "cuda" and why else nullcontext():
        chosen = ops.choose("auto", torch.device(device))
    assert chosen.missing() is None


@each_backend_and_reference
def test_a_backend_that_is_asked_for_is_the_one_that_runs(backend):
    assert ops.choose(backend, torch.device(device_of(backend))).name == backend


def test_a_backend_that_cannot_run_says_why_and_what_to_do(monkeypatch):
    broken = ops.Backend("broken", "never", ops.reference.recurrence, missing=lambda device=None: "it has no engine. Buy one.")
    monkeypatch.setattr(ops, "BACKENDS", (*ops.BACKENDS, broken))
    with pytest.raises(RuntimeError, match=r'backend="broken" cannot run here: it has no engine\. Buy one\..*"auto"'):
        PhasedLSTM(1, 1, backend="broken")


@pytest.mark.parametrize("name", ["adjoint", "plain", "CPU", ""])
@pytest.mark.parametrize(
    "use",
    [
        lambda name, rnn, file: PhasedLSTM(1, 1, backend=name),
        lambda name, rnn, file: setattr(rnn, "backend", name),
        lambda name, rnn, file: PhasedLSTM.load(file, backend=name),
        lambda name, rnn, file: ops.choose(name, torch.device("cpu")),
        lambda name, rnn, file: ops.stepper(rnn.cell, rnn.weights(), rnn.gates(), None, name),
    ],
)
def test_a_backend_that_does_not_exist_is_refused_with_the_names_of_all(use, name, tmp_path):
    rnn = PhasedLSTM(1, 1)
    rnn.save(tmp_path / "layer")
    with pytest.raises(ValueError, match=f"backend must be one of 'auto', 'reference', 'eager', 'cpu', 'cuda', got '{name}'"):
        use(name, rnn, tmp_path / "layer")


@pytest.mark.parametrize("backend, expected", [("auto", "cpu"), ("cpu", "cpu"), ("cuda", "cpu"), ("eager", "eager")])
def test_streams_of_a_layer_for_another_device_compute_in_the_core(backend, expected, monkeypatch):
    """They compute on the CPU, whatever the layer's backend."""
    if ops.backends()["cpu"].missing() is not None:
        expected = "eager"
    rnn, made = PhasedLSTM(1, 1), []
    rnn.__dict__["backend"] = backend  # as on a machine with a GPU
    stepper = ops.stepper
    monkeypatch.setattr(ops, "stepper", lambda *given: made.append(stepper(*given)) or made[-1])
    Stream(rnn).push([1.0], 0.0)
    assert [type(each).__module__ for each in made] == [f"phased.ops.{expected}.stepper"]


@each_backend_and_reference
def test_without_steps_every_parameter_has_a_gradient_of_zeros(backend):
    device = device_of(backend)
    rnn = PhasedLSTM(2, 3, backend=backend, learn_ratio_on=True, device=device)
    output, (h, c) = rnn(torch.zeros(0, 4, 2, device=device), torch.zeros(0, 4, device=device))
    assert (output.shape, h.shape, c.shape) == ((0, 4, 3), (1, 4, 3), (1, 4, 3))
    (output.sum() + h.sum() + c.sum()).backward()
    assert all(value.grad is not None and not value.grad.any() for value in rnn.parameters())


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_backend_is_imported_when_it_first_runs_and_its_operators_are_registered_before():
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True)
    imported, eager, cuda = done.stdout.splitlines()
    added = set(imported.split())
    lazy = {"phased.ops.eager", "phased.ops.cuda"}
    assert {name for name in added if name.startswith(tuple(lazy))} == lazy
    assert added.isdisjoint({"torch._dynamo", "phased.layer_calls"})  # torch's compiler, and what only calls on a GPU need
    assert len([name for name in added if name.partition(".")[0] != "phased"]) < 15
    assert (eager, cuda) == ("(4, 1, 3) 1 True", "(4, 1, 3) 3 True")
