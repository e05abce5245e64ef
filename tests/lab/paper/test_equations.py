"""Each printed equation of the paper, transcribed once in scalar Python, against the package on random input."""

import math
import random

import pytest
import torch
from hypothesis import given
from torch import Tensor

from phased import PhasedGRU, PhasedLSTM, updates
from phased.cell import hold, propose_gru, propose_lstm
from phased.gate import TimeGate, openness, phase
from phased_lab.paper.by_hand import set_gates
from strategies import BACKENDS, clocks, f64, periods, phases, ratios, times

Vector = list[float]
Matrix = list[list[float]]


# The paper, in plain floats


def sigma(a: float) -> float:
    return 1 / (1 + math.exp(-a))


def equation_6(t: float, tau: float, s: float, r_on: float, alpha: float) -> tuple[float, float]:
    """phi_t and k_t; the peak itself, which the paper leaves out, by continuity. Python's % is the cyclic mod."""
    phi = ((t - s) % tau) / tau
    if phi < r_on / 2:
        k = 2 * phi / r_on
    elif phi < r_on:
        k = 2 - 2 * phi / r_on
    else:
        k = alpha * phi
    return phi, k


def equations_1_to_5(
    x: Vector, h: Vector, c: Vector, w_x: dict[str, Matrix], w_h: dict[str, Matrix], b: dict[str, Vector], w_c: dict[str, Vector]
) -> tuple[Vector, Vector]:
    """One step of the LSTM, (h_t, c_t); w_x[gate][unit][input], w_c the peepholes. With 3 read as 7 and 5 as 9: the proposals."""
    new_h, new_c = [], []
    for n in range(len(h)):

        def total(gate: str, n: int = n) -> float:
            from_x = sum(w * value for w, value in zip(w_x[gate][n], x, strict=True))
            from_h = sum(w * value for w, value in zip(w_h[gate][n], h, strict=True))
            return from_x + from_h + b[gate][n]

        i = sigma(total("i") + w_c["i"][n] * c[n])  # Eq. 1
        f = sigma(total("f") + w_c["f"][n] * c[n])  # Eq. 2
        c_new = f * c[n] + i * math.tanh(total("c"))  # Eqs. 3 and 7
        o = sigma(total("o") + w_c["o"][n] * c_new)  # Eq. 4
        new_h.append(o * math.tanh(c_new))  # Eqs. 5 and 9
        new_c.append(c_new)
    return new_h, new_c


def equations_8_and_10(k: Vector, proposed: Vector, previous: Vector) -> Vector:
    return [k_n * new + (1 - k_n) * old for k_n, new, old in zip(k, proposed, previous, strict=True)]


def equation_11(epsilon: float, n: int, c_0: float) -> float:
    return (1 - epsilon) ** n * c_0


def gru_step(
    x: Vector, h: Vector, w_x: dict[str, Matrix], w_h: dict[str, Matrix], b_x: dict[str, Vector], b_h: dict[str, Vector]
) -> Vector:
    """Cho et al.'s GRU with the reset gate after the product, as cuDNN and torch.nn.GRU have it."""
    new = []
    for m in range(len(h)):

        def from_x(gate: str, m: int = m) -> float:
            return sum(w * value for w, value in zip(w_x[gate][m], x, strict=True)) + b_x[gate][m]

        def from_h(gate: str, m: int = m) -> float:
            return sum(w * value for w, value in zip(w_h[gate][m], h, strict=True)) + b_h[gate][m]

        r = sigma(from_x("r") + from_h("r"))
        z = sigma(from_x("z") + from_h("z"))
        n = math.tanh(from_x("n") + r * from_h("n"))
        new.append((1 - z) * n + z * h[m])
    return new


# From the package's parameters to the paper's letters


def by_gate(stacked: Tensor, gates: str) -> dict[str, list]:
    return {gate: part.tolist() for gate, part in zip(gates, stacked.detach().chunk(len(gates)), strict=True)}


def paper_lstm(rnn: PhasedLSTM, x: Tensor, t: Tensor, alpha: float, h: Vector, c: Vector) -> tuple[Matrix, Vector, Vector]:
    """A sequence x (T, D), t (T,) through Eqs. 1-10, as the parameters of `rnn` have it: outputs, final h and c."""
    w_x, w_h = by_gate(rnn.weight_ih_l0, "ifco"), by_gate(rnn.weight_hh_l0, "ifco")
    zeros = [0.0] * rnn.hidden_size
    bias = rnn.bias_ih_l0 + rnn.bias_hh_l0 if rnn.bias else torch.zeros(4 * rnn.hidden_size)
    peepholes = {g: getattr(rnn, f"weight_c{g}_l0").tolist() if rnn.peephole else zeros for g in "ifo"}
    outputs = []
    for x_j, t_j in zip(x.tolist(), t.tolist(), strict=True):
        k = paper_gate(rnn, t_j, alpha)
        h_proposed, c_proposed = equations_1_to_5(x_j, h, c, w_x, w_h, by_gate(bias, "ifco"), peepholes)
        h, c = equations_8_and_10(k, h_proposed, h), equations_8_and_10(k, c_proposed, c)
        outputs.append(h)
    return outputs, h, c


def paper_gru(rnn: PhasedGRU, x: Tensor, t: Tensor, alpha: float, h: Vector) -> Matrix:
    w_x, w_h = by_gate(rnn.weight_ih_l0, "rzn"), by_gate(rnn.weight_hh_l0, "rzn")
    zeros = torch.zeros(3 * rnn.hidden_size)
    b_x = by_gate(rnn.bias_ih_l0 if rnn.bias else zeros, "rzn")
    b_h = by_gate(rnn.bias_hh_l0 if rnn.bias else zeros, "rzn")
    outputs = []
    for x_j, t_j in zip(x.tolist(), t.tolist(), strict=True):
        h = equations_8_and_10(paper_gate(rnn, t_j, alpha), gru_step(x_j, h, w_x, w_h, b_x, b_h), h)
        outputs.append(h)
    return outputs


def paper_gate(rnn: PhasedLSTM | PhasedGRU, t: float, alpha: float) -> Vector:
    units = zip(rnn.period_l0.tolist(), rnn.shift_l0.tolist(), rnn.ratio_on_l0.tolist(), strict=True)
    return [equation_6(t, tau, s, r_on, alpha)[1] for tau, s, r_on in units]


def equal(got: Tensor, want: object) -> None:
    torch.testing.assert_close(got, f64(want), rtol=1e-11, atol=1e-11)


# The comparisons


@given(times, periods, times, ratios, phases)
def test_equation_6_is_phase_and_openness(t, tau, s, r_on, alpha):
    phi_paper, _ = equation_6(t, tau, s, r_on, alpha)
    phi = phase(f64(t), f64(tau), f64(s))
    gap = abs(phi.item() - phi_paper)
    assert min(gap, 1 - gap) <= 1e-15 * (abs(t) + abs(s) + tau) / tau + 1e-15
    # From one and the same phase, on either side of every kink, the two branches must agree.
    _, k_paper = equation_6(phi.item(), 1.0, 0.0, r_on, alpha)
    k = openness(phi, f64(r_on), alpha)
    assert k.item() == pytest.approx(k_paper, rel=1e-12, abs=1e-12)


@given(phases, ratios, phases)
def test_equation_6_has_its_three_branches(phi, r_on, alpha):
    _, k_paper = equation_6(phi, 1.0, 0.0, r_on, alpha)
    assert openness(f64(phi), f64(r_on), alpha).item() == pytest.approx(k_paper, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("with_peepholes", [False, True])
def test_equations_1_to_5_and_7_and_9_are_the_lstms_proposal(with_peepholes):
    size, inputs = 4, 3
    draw = random.Random(5)

    def vector(n: int) -> Vector:
        return [draw.gauss(0, 1) for _ in range(n)]

    w_x = {g: [vector(inputs) for _ in range(size)] for g in "ifco"}
    w_h = {g: [vector(size) for _ in range(size)] for g in "ifco"}
    b = {g: vector(size) for g in "ifco"}
    w_c = {g: vector(size) if with_peepholes else [0.0] * size for g in "ifo"}
    x, h, c = vector(inputs), vector(size), vector(size)

    from_x = torch.stack([f64(w_x[g]) @ f64(x) + f64(b[g]) for g in "ifco"])
    from_h = torch.stack([f64(w_h[g]) @ f64(h) for g in "ifco"])
    peephole = torch.stack([f64(w_c[g]) for g in "ifo"]) if with_peepholes else None
    got_h, got_c = propose_lstm(from_x, from_h, (f64(h), f64(c)), peephole).state

    want_h, want_c = equations_1_to_5(x, h, c, w_x, w_h, b, w_c)
    equal(got_c, want_c)
    equal(got_h, want_h)


@given(phases)
def test_equations_8_and_10_hold_both_states(k):
    proposed, previous = torch.randn(2, 5, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    gate = f64([k, 0.0, 1.0, 0.5, k / 2])
    got = hold(gate, tuple(proposed), tuple(previous))
    for state, new, old in zip(got, proposed, previous, strict=True):
        equal(state, equations_8_and_10(gate.tolist(), new.tolist(), old.tolist()))


def test_the_grus_proposal_is_cho_et_al_as_nn_gru_computes_it():
    cell = torch.nn.GRUCell(3, 4, dtype=torch.float64)
    x, h = torch.randn(3, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    w_x, w_h = by_gate(cell.weight_ih, "rzn"), by_gate(cell.weight_hh, "rzn")
    b_x, b_h = by_gate(cell.bias_ih, "rzn"), by_gate(cell.bias_hh, "rzn")
    want = gru_step(x.tolist(), h.tolist(), w_x, w_h, b_x, b_h)
    equal(cell(x, h).detach(), want)
    from_x = torch.stack([f64(w_x[g]) @ x + f64(b_x[g]) for g in "rzn"])
    from_h = torch.stack([f64(w_h[g]) @ h + f64(b_h[g]) for g in "rzn"])
    (got,) = propose_gru(from_x, from_h, (h,), None).state
    equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_layer_is_equations_1_to_10(bias, peephole, training, backend):
    alpha = 0.01
    rnn = PhasedLSTM(
        3, 5, bias=bias, peephole=peephole, period=7.0, ratio_on=0.3, leak=alpha, backend=backend, dtype=torch.float64
    ).train(training)
    x, t = torch.randn(25, 3, dtype=torch.float64), clocks(25, 1, span=40.0, start=-20.0).squeeze(1)
    h, c = torch.randn(1, 5, dtype=torch.float64), torch.randn(1, 5, dtype=torch.float64)
    output, (h_n, c_n) = rnn(x, t, (h, c))
    want, want_h, want_c = paper_lstm(rnn, x, t, alpha if training else 0.0, h[0].tolist(), c[0].tolist())
    equal(output.detach(), want)
    equal(h_n.detach(), [want_h])
    equal(c_n.detach(), [want_c])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("bias", [False, True])
def test_the_gru_layer_is_cho_et_al_behind_equation_10(bias, training, backend):
    alpha = 0.01
    rnn = PhasedGRU(3, 5, bias=bias, period=7.0, ratio_on=0.3, leak=alpha, backend=backend, dtype=torch.float64).train(training)
    x, t = torch.randn(25, 3, dtype=torch.float64), clocks(25, 1, span=40.0, start=-20.0).squeeze(1)
    h = torch.randn(1, 5, dtype=torch.float64)
    output, h_n = rnn(x, t, h)
    want = paper_gru(rnn, x, t, alpha if training else 0.0, h[0].tolist())
    equal(output.detach(), want)
    equal(h_n.detach(), want[-1:])


def forgetful(gate: str, ratio_on: float, epsilon: float) -> PhasedLSTM:
    """Units that take nothing in, i = 0, and whose forget gate is f = 1 - epsilon: the setting of Eq. 11."""
    rnn = PhasedLSTM(1, 6, gate=gate, period=20.0, ratio_on=ratio_on, dtype=torch.float64).eval()
    set_gates(rnn, i=-1e4, f=math.log((1 - epsilon) / epsilon), o=0.0)
    return rnn


def remembered(rnn: PhasedLSTM, t: Tensor, c_0: Tensor) -> Tensor:
    """The memory c_0 after events at these times."""
    _, (_, c_n) = rnn(torch.randn(len(t), 1, dtype=torch.float64), t, (torch.zeros_like(c_0), c_0))
    return c_n.detach()


def test_equation_11_an_lstm_forgets_with_every_step():
    rnn, epsilon, n = forgetful("square", 1.0, 0.01), 0.01, 200
    c_0 = torch.randn(1, 6, dtype=torch.float64)
    equal(remembered(rnn, clocks(n, 1).squeeze(1), c_0), [[equation_11(epsilon, n, c) for c in c_0[0].tolist()]])


def test_equation_11_a_phased_lstm_forgets_only_with_its_updates():
    rnn, epsilon, n = forgetful("square", 0.1, 0.01), 0.01, 200
    c_0 = torch.randn(1, 6, dtype=torch.float64)
    t = clocks(n, 1).squeeze(1)
    counts = updates(rnn, t)[0].tolist()
    assert 0 < max(counts) < n / 4
    equal(remembered(rnn, t, c_0), [[equation_11(epsilon, u, c) for u, c in zip(counts, c_0[0].tolist(), strict=True)]])


def test_equation_11_with_a_triangle_the_decay_is_weighed_by_the_openness():
    rnn, epsilon, n = forgetful("triangle", 0.2, 0.01), 0.01, 200
    c_0 = torch.randn(1, 6, dtype=torch.float64)
    t = clocks(n, 1).squeeze(1)
    kept = [math.prod(1 - epsilon * k for k in ks) for ks in zip(*(paper_gate(rnn, t_j, 0.0) for t_j in t.tolist()), strict=True)]
    equal(remembered(rnn, t, c_0), [[share * c for share, c in zip(kept, c_0[0].tolist(), strict=True)]])


def test_memory_is_perfect_while_the_gate_is_closed():
    """c_j = c_(j - delta) if k_t = 0 in between (the sentence after Eq. 11)."""
    rnn = forgetful("triangle", 0.05, 0.5)
    c_0 = torch.randn(1, 6, dtype=torch.float64)
    gate = TimeGate(rnn.period_l0, rnn.shift_l0, rnn.ratio_on_l0)
    t = torch.arange(4000, dtype=torch.float64) / 100
    c_before = remembered(rnn, t, c_0)
    asleep = (gate(t) == 0).all(0)
    assert not asleep.any()  # every unit opened within two periods
    for unit in range(6):
        closed = gate(t)[:, unit] == 0
        held = t[closed & (t > 20)]
        assert remembered(rnn, held, c_before)[0, unit] == c_before[0, unit]
