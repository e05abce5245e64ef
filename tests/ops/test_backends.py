"""Which backend runs, and why another cannot."""

from contextlib import nullcontext

import pytest
import torch

from contract import device_of, each_backend_and_reference
from phased import PhasedLSTM, Stream, ops


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
