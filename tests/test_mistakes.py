"""The mistakes other implementations made in public, each with the property that tells it from the real thing.

Every property holds for the layer and for a plain copy of the equations, and fails for that copy with the mistake in it.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from phased import PhasedLSTM
from phased.gate import phase
from strategies import BACKENDS, clocks, f64

State = tuple[Tensor, Tensor]
Run = Callable[..., tuple[Tensor, State]]
"""x (T, B, D), t (T, B), (h, c) each (B, H), lengths or None -> outputs (T, B, H), final (h, c)."""


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


def by_hand(rnn: PhasedLSTM, mistake: str | None = None) -> Run:
    """The layer's equations in a plain loop, with a mistake or without."""

    def run(x: Tensor, t: Tensor, state: State, lengths: list[int] | None = None) -> tuple[Tensor, State]:
        h, c = state
        alpha = rnn.leak if rnn.training or mistake == "leak left on in eval" else 0.0
        if mistake == "leak of one in eval" and not rnn.training:
            alpha = 1.0
        outputs = []
        for j in range(len(x)):
            k = gate_by_hand(rnn, t[j], alpha, mistake)
            if lengths is not None and mistake != "padding processed as data":
                k = k * (j < torch.tensor(lengths)).unsqueeze(-1)
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
            outputs.append(proposed_h if mistake == "ungated output returned" else h)
        return torch.stack(outputs), (h, c)

    return run


def layer(rnn: PhasedLSTM) -> Run:
    def run(x: Tensor, t: Tensor, state: State, lengths: list[int] | None = None) -> tuple[Tensor, State]:
        output, (h, c) = rnn(x, t, tuple(s.unsqueeze(0) for s in state), lengths)
        return output, (h[0], c[0])

    return run


def make(hidden: int = 5, **settings: Any) -> PhasedLSTM:
    return PhasedLSTM(
        3, hidden, peephole=True, dtype=torch.float64, **({"period": 10.0, "ratio_on": 0.4, "leak": 0.1} | settings)
    )


def some(steps: int, batch: int, hidden: int = 5) -> tuple[Tensor, State]:
    draw = torch.Generator().manual_seed(3)
    x, h, c = (
        torch.randn(*size, dtype=torch.float64, generator=draw) for size in ((steps, batch, 3), (batch, hidden), (batch, hidden))
    )
    return x, (h.tanh(), c)


def close(a: Tensor, b: Tensor, atol: float = 1e-9) -> bool:
    return torch.allclose(a, b, rtol=0, atol=atol)


# The properties: each takes a way to make a Run out of a layer, and says whether it has the property

Maker = Callable[[PhasedLSTM], Run]


def before_the_shift_states_stay_bounded(runner: Maker) -> bool:
    """k down to -20 and |h| up to 1e6 were seen where t < s."""
    rnn = make(shift=1e3, ratio_on=0.05).eval()
    x, state = some(200, 4)
    output, _ = runner(rnn)(x, clocks(200, 4, span=900.0), state)
    return bool((output.abs() <= 1).all())


def whole_periods_far_from_zero_change_nothing(runner: Maker) -> bool:
    """At t = 1e7 and tau = 100 a float32 phase is 1 % of a cycle off; UNIX seconds come in steps of 128."""
    results = []
    for start in (0.0, 1e7, 1.7e9):
        rnn = make(period=100.0, shift=20.0)
        with torch.no_grad():
            for n, (name, parameter) in enumerate(rnn.named_parameters()):
                if name.startswith(("weight", "bias")):
                    draw = torch.Generator().manual_seed(n)
                    parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=draw))
        x, state = some(40, 2)
        t = torch.linspace(0, 390, 80, dtype=torch.float64).reshape(40, 2)
        results.append(runner(rnn.eval())(x, start + t, state)[0].detach())
    return close(results[0], results[1], 1e-5) and close(results[0], results[2], 1e-5)


def closed_gates_keep_the_state_in_eval(runner: Maker) -> bool:
    rnn = make(period=1000.0, shift=500.0).eval()
    x, state = some(20, 4)
    output, (h, c) = runner(rnn)(x, clocks(20, 4, span=400.0), state)
    return torch.equal(h, state[0]) and torch.equal(c, state[1]) and torch.equal(output, state[0].expand_as(output))


def half_open(runner: Maker, output_bias: float, output_peephole: float) -> tuple[Tensor, Tensor]:
    """h and c after one step from nothing, half open, with i = f = g = 1 and so c~ = 1, and an output gate as given."""
    rnn = make(shift=0.0, ratio_on=1.0).eval()
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if name.startswith(("weight", "bias")):
                parameter.zero_()
        rnn.bias_ih_l0.fill_(100.0)
        rnn.bias_ih_l0[-5:] = output_bias
        rnn.weight_co_l0.fill_(output_peephole)
    zeros = torch.zeros(1, 5, dtype=torch.float64)
    return runner(rnn)(torch.zeros(1, 1, 3, dtype=torch.float64), f64([[2.5]]), (zeros, zeros))[1]


def a_half_open_gate_lets_half_of_the_proposal_through(runner: Maker) -> bool:
    """h = k tanh(1) and not k tanh(k)."""
    h, c = half_open(runner, output_bias=100.0, output_peephole=0.0)
    return close(c, 0.5 + 0 * c) and close(h, 0.5 * math.tanh(1) + 0 * h)


def the_output_gates_peephole_sees_the_proposal(runner: Maker) -> bool:
    """An output gate that hears only its peephole, of weight 1: o = sigma(c~) = sigma(1), whatever k is."""
    h, _ = half_open(runner, output_bias=0.0, output_peephole=1.0)
    return close(h, 0.5 * math.tanh(1) / (1 + math.exp(-1)) + 0 * h)


def the_output_is_the_gated_state(runner: Maker) -> bool:
    """What is returned at the last step is what is carried on."""
    x, state = some(20, 4)
    rnn = make().eval()
    output, (h, _) = runner(rnn)(x, clocks(20, 4), state)
    return torch.equal(output[-1], h)


def each_sequence_sees_only_its_own_clock(runner: Maker) -> bool:
    """Batched equals one by one, also where the batch is as large as the layer."""
    rnn = make(hidden=4).eval()
    x, state = some(20, 4, 4)
    t = clocks(20, 4)
    output, _ = runner(rnn)(x, t, state)
    alone = [runner(rnn)(x[:, b : b + 1], t[:, b : b + 1], tuple(s[b : b + 1] for s in state))[0] for b in range(4)]
    return close(output, torch.cat(alone, 1))


def padding_changes_nothing(runner: Maker) -> bool:
    rnn = make().eval()
    x, state = some(20, 4)
    t = clocks(20, 4)
    lengths = [20, 0, 7, 13]
    _, (h, c) = runner(rnn)(x, t, state, lengths)
    for b, n in enumerate(lengths):
        want = tuple(s[b : b + 1] for s in state)
        if n:
            _, want = runner(rnn)(x[:n, b : b + 1], t[:n, b : b + 1], want)
        if not (close(h[b], want[0][0]) and close(c[b], want[1][0])):
            return False
    return True


def at_its_peak_a_gate_is_fully_open(runner: Maker) -> bool:
    """With 2 * phi * r_on for 2 * phi / r_on it opens by r_on squared: 400 times less at 0.05."""
    narrow, whole = make(shift=0.0, ratio_on=0.05).eval(), make(shift=0.0, ratio_on=1.0, gate="square").eval()
    whole.load_state_dict({k: v for k, v in narrow.state_dict().items() if not k.startswith("ratio_on")}, strict=False)
    x, state = some(1, 4)
    peak = torch.full((1, 4), 0.25, dtype=torch.float64)
    return close(runner(narrow)(x, peak, state)[0], layer(whole)(x, peak, state)[0], 1e-6)


def the_gradient_is_the_slope(name: str, runner: Maker) -> bool:
    """The gradient of a sum of outputs to a gate parameter is a central difference.

    That to the period is the exact one, -(t - s) / tau**2: without its floor term it came out 5 to 237 times too small.
    """
    rnn = make(period=10.0, shift=1.3, ratio_on=0.8, learn_ratio_on=True)
    t = f64([[3.1, 14.2], [105.7, 16.9], [208.4, 307.3]])
    x, state = some(3, 2)
    parameter = rnn.get_parameter(f"{name}_l0")

    def loss() -> Tensor:
        return runner(rnn)(x, t, state)[0].sum()

    (gradient,) = torch.autograd.grad(loss(), parameter, allow_unused=True)
    slope, step = torch.zeros_like(parameter), 1e-6
    with torch.no_grad():
        for unit in range(len(parameter)):
            parameter[unit] += step
            up = loss()
            parameter[unit] -= 2 * step
            slope[unit] = (up - loss()) / (2 * step)
            parameter[unit] += step
    gradient = torch.zeros_like(slope) if gradient is None else gradient
    return bool((slope.abs() > 1e-6).any()) and torch.allclose(gradient, slope, rtol=1e-4, atol=1e-6)


MISTAKES: dict[str, Callable[[Maker], bool]] = {
    "fmod": before_the_shift_states_stay_bounded,
    "phase in float32": whole_periods_far_from_zero_change_nothing,
    "no floor term in the gradient": partial(the_gradient_is_the_slope, "period"),
    "leak left on in eval": closed_gates_keep_the_state_in_eval,
    "leak of one in eval": closed_gates_keep_the_state_in_eval,
    "h~ from the gated c": a_half_open_gate_lets_half_of_the_proposal_through,
    "the output gate sees the gated c": the_output_gates_peephole_sees_the_proposal,
    "ungated output returned": the_output_is_the_gated_state,
    "the last sample's clock for the whole batch": each_sequence_sees_only_its_own_clock,
    "clocks laid along the units": each_sequence_sees_only_its_own_clock,
    "padding processed as data": padding_changes_nothing,
    "the shift detached": partial(the_gradient_is_the_slope, "shift"),
    "times r_on": at_its_peak_a_gate_is_fully_open,
}
each_mistake = pytest.mark.parametrize("mistake, has_the_property", MISTAKES.items(), ids=MISTAKES.keys())


@each_mistake
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_layer_does_not_make_the_mistake(mistake, has_the_property, backend):
    def maker(rnn: PhasedLSTM) -> Run:
        rnn.backend = backend
        return layer(rnn)

    assert has_the_property(maker)


@each_mistake
def test_the_property_holds_for_the_equations_and_not_with_the_mistake_in_them(mistake, has_the_property):
    assert has_the_property(by_hand)
    assert not has_the_property(lambda rnn: by_hand(rnn, mistake))


# A phase of one, an exploding gradient


def test_a_phase_just_below_a_whole_cycle_does_not_become_one():
    """(t - s) mod tau can round to tau itself: -1e-20 mod 1 is 1."""
    t, tau = f64(-1e-20), f64(1.0)
    assert torch.remainder(t, tau) / tau == 1
    assert phase(t, tau, f64(0.0)) == 0
    assert phase(f64(0.0), tau, f64(1e-20)) < 1


def test_the_period_s_gradient_grows_with_absolute_time_and_stays_finite():
    """It is exact, so it is large; it must not be NaN or infinite for times of any clock."""
    for start in (0.0, 1e6, 1.7e9, 1.7e15):
        rnn = make(period=3.0, learn_ratio_on=True)
        x, _ = some(30, 4)
        rnn(x, clocks(30, 4, start=start))[0].square().sum().backward()
        for name in ("period", "shift", "ratio_on"):
            assert rnn.get_parameter(f"{name}_l0").grad.isfinite().all()
        if start:
            assert rnn.period_l0.grad.abs().max() > 1e-3 * start / 9


def test_the_leak_and_its_gradient_are_there_in_training():
    """The other side of a leak that is off in eval: closed units must still learn."""
    rnn = make(period=1000.0, shift=500.0)
    x, state = some(20, 4)
    output, _ = layer(rnn)(x, clocks(20, 4, span=400.0), state)
    assert not torch.equal(output[-1], state[0])
    output.sum().backward()
    assert (rnn.shift_l0.grad != 0).all()
    assert (rnn.weight_ih_l0.grad != 0).any()
