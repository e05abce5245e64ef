"""Tracers and transforms: torch.func works on the reference, and what would lose values or derivatives raises."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

from layers import Layer, each_layer
from phased import PhasedLSTM
from phased.init import LogUniform
from strategies import BACKENDS, clocks

# torch's own, on importing what forward mode needs
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

X, T = torch.randn(6, 4, 3, dtype=torch.float64), clocks(6, 4)
COMPILED = [name for name in BACKENDS if name != "reference"]
each_compiled = pytest.mark.parametrize("backend", COMPILED)


def made(make: type, backend: str = "reference") -> Layer:
    return make(3, 5, period=LogUniform(2, 40), ratio_on=0.5, learn_ratio_on=True, backend=backend, dtype=torch.float64)


def parameters(rnn: Layer) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in rnn.named_parameters()}


TRANSFORMS: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], object]] = {
    "grad": lambda f, x: grad(lambda x: f(x).sum())(x),
    "vmap": lambda f, x: vmap(f)(x.unsqueeze(0)),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "vjp": lambda f, x: vjp(f, x)[1](f(x)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(lambda x: f(x).sum())(x),
}


@each_layer
@each_compiled
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_other_backends_refuse_torchs_function_transforms(make, backend, transform):
    rnn = made(make, backend)
    message = f'torch.func .* need a {make.__name__} with backend="reference", got .*"{backend}". Set'
    with pytest.raises(RuntimeError, match=message):
        TRANSFORMS[transform](lambda x: rnn(x, T)[0], X)


@each_layer
def test_sequences_and_their_gradients_are_mapped_by_the_reference(make):
    rnn = made(make)
    got = vmap(lambda x, t: rnn(x, t)[0], in_dims=1, out_dims=1)(X, T)
    torch.testing.assert_close(got, rnn(X, T)[0])
    each = vmap(grad(lambda p, x, t: functional_call(rnn, p, (x, t))[0].square().sum()), in_dims=(None, 1, 1))
    found = each(parameters(rnn), X, T)
    for b in range(4):
        rnn.zero_grad()
        rnn(X[:, b], T[:, b])[0].square().sum().backward()
        for name, parameter in rnn.named_parameters():
            torch.testing.assert_close(found[name][b], parameter.grad)


@each_layer
def test_an_ensemble_is_mapped_over_its_parameters_by_the_reference(make):
    layers = [made(make).eval() for _ in range(3)]
    stacked, _ = stack_module_state(layers)
    got = vmap(lambda p: functional_call(layers[0], p, (X, T))[0])(stacked)
    for output, rnn in zip(got, layers, strict=True):
        torch.testing.assert_close(output, rnn(X, T)[0])


@each_layer
def test_forward_mode_and_reverse_mode_agree_on_the_reference(make):
    rnn = made(make)
    values = parameters(rnn)
    directions = {name: torch.randn_like(value) for name, value in values.items()}

    def loss(p: dict[str, Tensor]) -> Tensor:
        return functional_call(rnn, p, (X, T))[0].square().sum()

    _, forwards = jvp(loss, (values,), (directions,))
    backwards = sum((g * directions[name]).sum() for name, g in grad(loss)(values).items())
    torch.testing.assert_close(forwards, backwards)


@each_layer
@each_compiled
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("dual", ["input", "time", "state", "weight", "period"])
def test_other_backends_refuse_tangents_and_drop_none(make, backend, frozen, dual):
    rnn = made(make, backend).requires_grad_(not frozen)
    hx = tuple(torch.zeros(1, 4, 5, dtype=torch.float64) for _ in rnn.state_names)
    with forward_ad.dual_level():

        def doubled(value: Tensor, name: str) -> Tensor:
            return forward_ad.make_dual(value, torch.ones_like(value)) if name == dual else value

        hx = tuple(doubled(s, "state") for s in hx)
        values = {"weight_hh_l0": doubled(rnn.weight_hh_l0, "weight"), "period_l0": doubled(rnn.period_l0, "period")}
        arguments = doubled(X, "input"), doubled(T, "time"), hx if len(hx) > 1 else hx[0]
        message = f'Forward-mode .* need a {make.__name__} with backend="reference", got .*"{backend}"'
        with pytest.raises(RuntimeError, match=message):
            functional_call(rnn, values, arguments)


@each_compiled
def test_without_tangents_a_dual_level_changes_nothing(backend):
    rnn = made(PhasedLSTM, backend).eval()
    with forward_ad.dual_level():
        inside = rnn(X, T)[0]
    assert torch.equal(inside, rnn(X, T)[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [True, False])
def test_torchscript_is_refused_with_its_successor(backend, training):
    rnn = made(PhasedLSTM, backend).train(training)
    message = r"PhasedLSTM must not (run under torch\.jit\.trace|be compiled by torch\.jit\.script).*Use torch\.export\.export\("
    with pytest.raises(RuntimeError, match=message), torch.no_grad():
        torch.jit.trace(rnn, (X, T))
    for module in (rnn, nn.ModuleDict({"rnn": rnn})):
        with pytest.raises(RuntimeError, match=message):
            torch.jit.script(module)
    rnn(X, T)
