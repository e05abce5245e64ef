"""Private names of torch: this version has all of them, and layers work in one that lacks any of them."""

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from phased import PhasedLSTM, tracing
from phased.ops.calls import alike

NAMES = [
    "torch._C._is_tracing",
    "torch._C._are_functorch_transforms_active",
    "torch._C._len_torch_dispatch_stack",
    "torch._subclasses.fake_tensor.FakeTensor",
    "torch._C._autograd._top_saved_tensors_default_hooks",
    "torch._C._dynamo.guards.TensorGuards",
    pytest.param("torch._C._cuda_getCurrentRawStream", marks=pytest.mark.gpu),  # torch for CPUs has none
    "torch.autograd.forward_ad._current_level",
]


def without(name, monkeypatch):
    """Let `phased.tracing` find no such name in torch."""
    fresh = module_from_spec(spec := spec_from_file_location("phased.tracing", tracing.__file__))
    module, _, last = name.rpartition(".")
    with monkeypatch.context() as removed:
        removed.delattr(import_module(module), last)
        spec.loader.exec_module(fresh)
    for own, value in vars(fresh).items():
        if not own.startswith("__"):
            monkeypatch.setattr(tracing, own, value)
    if last == fresh._LEVEL:  # looked up at each call
        monkeypatch.setattr(tracing, "_LEVEL", "no such name")


@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_layer_works_without_a_private_name_of_torch(name, monkeypatch):
    rnn, x, time = PhasedLSTM(3, 5, ratio_on=0.4), torch.randn(20, 2, 3), torch.arange(20.0).unsqueeze(1).expand(20, 2)

    def gradients():
        rnn.zero_grad()
        output = checkpoint(lambda x: rnn(x, time)[0], x, use_reentrant=False)
        output.square().sum().backward()
        return [output.detach(), *(parameter.grad.clone() for parameter in rnn.parameters() if parameter.requires_grad)]

    module, _, last = name.rpartition(".")
    getattr(import_module(module), last)  # torch has the name
    before = gradients()
    without(name, monkeypatch)
    for one, other in zip(gradients(), before, strict=True):
        assert torch.equal(one, other)
    assert alike([x, time])(x, time)
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace, which does not record"):
        torch.jit.trace(rnn, (x, time))
    dual = torch.autograd.forward_ad
    with dual.dual_level(), pytest.raises(RuntimeError, match="Forward-mode derivatives"):
        rnn(dual.make_dual(x, torch.ones_like(x)), time)
    with pytest.raises(RuntimeError, match=r"torch\.func transforms .* need a PhasedLSTM"):
        torch.func.grad(lambda x: rnn(x, time)[0].sum())(x)
    rnn.backend = "reference"
    assert torch.func.grad(lambda x: rnn(x, time)[0].sum())(x).isfinite().all()


def test_the_version_of_torch_with_all_names_is_written_down():
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    assert version <= tuple(map(int, tracing.TESTED.split("."))), f"set TESTED in {tracing.__file__} after a look at its names"


def test_apply_without_support_for_transforms_is_apply():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    x = torch.ones(2, requires_grad=True)
    tracing.apply_of(Double)(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["_foreach_norm", "_foreach_mul_", "_foreach_lerp_"])
def test_operations_on_lists_give_the_same_one_by_one(name, monkeypatch):
    def found():
        one, other = torch.arange(3.0), torch.full((2, 2), 5.0)
        norms = tracing.norms([one, other])
        tracing.multiply_([one, other], torch.tensor(0.5))
        tracing.lerp_([one], [torch.ones(3)], 0.25)
        return [*norms, one, other]

    expected = found()
    without(f"torch.{name}", monkeypatch)
    assert all(torch.equal(got, want) for got, want in zip(found(), expected, strict=True))
