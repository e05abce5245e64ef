"""The mistakes other implementations made in public: the layer equals a plain copy of the equations, and not with one in them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from phased import LogUniform, PhasedLSTM
from strategies import BACKENDS, clocks

MISTAKES = (
    "fmod",  # k down to -20 and |h| up to 1e6 were seen where t < s
    "phase in float32",  # at t = 1e7 and tau = 100 it is 1 % of a cycle off
    "no floor term in the gradient",  # that to the period came out 5 to 237 times too small
    "leak left on in eval",
    "leak of one in eval",
    "h~ from the gated c",  # h = k tanh(k) for k tanh(1)
    "the output gate sees the gated c",
    "ungated output returned",
    "the last sample's clock for the whole batch",
    "clocks laid along the units",  # unnoticed unless the batch is as large as the layer
    "padding processed as data",
    "the shift detached",
    "times r_on",  # the gate opens by r_on squared: 400 times less at 0.05
)


def gate_by_hand(rnn: PhasedLSTM, t: Tensor, alpha: float, mistake: str | None) -> Tensor:
    """Eq. 6 for times (B,), as (B, H), or one of the ways it was got wrong."""
    tau, s, r_on = rnn.period_l0, rnn.shift_l0, rnn.ratio_on_l0
    if mistake == "the last sample's clock for the whole batch":
        t = t[-1].expand_as(t)
    if mistake == "the shift detached":
        s = s.detach()
    # A clock laid along the units instead of the batch goes unnoticed where the two are of one size.
    t = t.unsqueeze(0) if mistake == "clocks laid along the units" else t.unsqueeze(-1)
    since = t - s
    if mistake == "phase in float32":
        since, tau = (t.float() - s.float()), tau.float()
    if mistake == "fmod":
        phi = torch.fmod(since, tau) / tau
    elif mistake == "no floor term in the gradient":
        phi = (since - (torch.floor(since / tau) * tau).detach()) / tau
    else:
        phi = torch.remainder(since, tau) / tau
    rise = 2 * phi * r_on if mistake == "times r_on" else 2 * phi / r_on
    return torch.where(phi < r_on / 2, rise, torch.where(phi < r_on, 2 - rise, alpha * phi)).double()


def by_hand(
    rnn: PhasedLSTM, x: Tensor, t: Tensor, h: Tensor, c: Tensor, lengths: list[int], mistake: str | None = None
) -> list[Tensor]:
    """The layer's equations in a plain loop, with a mistake or without: output, h and c at the end."""
    alpha = rnn.leak if rnn.training or mistake == "leak left on in eval" else 0.0
    if mistake == "leak of one in eval" and not rnn.training:
        alpha = 1.0
    outputs = []
    for j in range(len(x)):
        k = gate_by_hand(rnn, t[j], alpha, mistake)
        is_data = (j < torch.tensor(lengths)).unsqueeze(-1)
        if mistake != "padding processed as data":
            k = k * is_data
        products = x[j] @ rnn.weight_ih_l0.T + rnn.bias_ih_l0 + h @ rnn.weight_hh_l0.T + rnn.bias_hh_l0
        pre_i, pre_f, pre_g, pre_o = products.chunk(4, -1)
        i = (pre_i + rnn.weight_ci_l0 * c).sigmoid()
        f = (pre_f + rnn.weight_cf_l0 * c).sigmoid()
        proposed_c = f * c + i * pre_g.tanh()
        new_c = k * proposed_c + (1 - k) * c
        seen = new_c if mistake == "the output gate sees the gated c" else proposed_c
        o = (pre_o + rnn.weight_co_l0 * seen).sigmoid()
        proposed_h = o * (new_c if mistake == "h~ from the gated c" else proposed_c).tanh()
        h, c = k * proposed_h + (1 - k) * h, new_c
        outputs.append(is_data * (proposed_h if mistake == "ungated output returned" else h))
    return [torch.stack(outputs), h, c]


def make(**settings: Any) -> PhasedLSTM:
    settings = {"period": 10.0, "ratio_on": 0.4, "leak": 0.1} | settings
    return PhasedLSTM(3, 4, peephole=True, dtype=torch.float64, **settings)


def results(training: bool, backend: str | None = None, mistake: str | None = None) -> list[Tensor]:
    """Output, final states and gradients to the gates, by a backend or by hand: as many sequences as units, and t < s."""
    draw = torch.random.manual_seed(3)
    rnn = make(period=LogUniform(20, 200), learn_ratio_on=True, backend=backend or "auto").train(training)
    x, h, c = (torch.randn(*size, 4, dtype=torch.float64, generator=draw) for size in ((20, 4), (4,), (4,)))
    x, t, lengths = x[..., :3], clocks(20, 4, span=400.0, start=-1e7), [20, 0, 7, 13]
    if backend is None:
        found = by_hand(rnn, x, t, h, c, lengths, mistake)
    else:
        output, final = rnn(x, t, (h.unsqueeze(0), c.unsqueeze(0)), lengths)
        found = [output, *(s[0] for s in final)]
    gates = [rnn.get_parameter(f"{name}_l0") for name in ("period", "shift", "ratio_on")]
    loss = sum(r.sum() for r in found)
    gradients = torch.autograd.grad(loss, gates, allow_unused=True, materialize_grads=True)
    return [value.detach() for value in (*found, *gradients)]


def are_close(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [True, False])
def test_the_layer_makes_none_of_the_mistakes(training, backend):
    assert are_close(results(training, backend), results(training))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_equations_changes_the_numbers(mistake):
    assert not all(are_close(results(training, mistake=mistake), results(training)) for training in (True, False))


def test_the_leak_and_its_gradient_are_there_in_training():
    """The other side of a leak that is off in eval: closed units must still learn."""
    rnn = make(period=1000.0, shift=500.0)
    output, _ = rnn(torch.randn(20, 4, 3, dtype=torch.float64), clocks(20, 4, span=400.0))
    assert (output[-1] != 0).all()
    output.sum().backward()
    assert (rnn.shift_l0.grad != 0).all()
    assert (rnn.weight_ih_l0.grad != 0).any()
