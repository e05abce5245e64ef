"""The time gate of Eq. 6: a clock that is exact at any time, and gradients that are exact and finite."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from phased.gate import SHAPES, TimeGate, bounded, openness, phase, slopes
from strategies import apart, f64, phases, ratios, seeds, times

shapes = st.sampled_from(sorted(SHAPES))
leaks = st.sampled_from([0.0, 0.001, 0.3])
anything = st.floats(allow_nan=False, allow_infinity=False)
UNIX = 1_700_000_000


def cases(times: st.SearchStrategy[float | int], shortest: float, longest: float) -> st.SearchStrategy[tuple[float | int, ...]]:
    """Times, periods, and shifts: as far from zero as the times, or anywhere in the first period."""
    periods = st.floats(shortest, longest)
    return st.tuples(times, periods, times) | st.tuples(times, periods, phases).map(
        lambda found: (*found[:2], found[1] * found[2])
    )


# The phase


@given(anything, st.floats(min_value=1e-12, allow_infinity=False), st.floats(-1e15, 1e15))
@example(-1e-20, 1.0, 0.0)
@example(-5e-324, 1.0, 0.0)
@example(1.0, 1.0, 5e-324)
@example(0.0, 0.1, 1e-18)
@example(math.nextafter(0.3, 0), 0.1, 0.0)
@example(1e300, 3.0, 0.0)
def test_the_phase_is_always_in_zero_to_one_and_one_is_not_in_it(t, tau, s):
    phi = phase(f64(t), f64(tau), f64(s))
    assert 0 <= phi < 1


@given(
    cases(st.floats(-1e4, 1e4), 0.1, 1e3)
    | cases(st.floats(UNIX - 1e6, UNIX + 1e6), 0.01, 1e7)
    | cases(st.integers(UNIX * 10**6 - 10**12, UNIX * 10**6 + 10**12), 1.0, 1e9)
)
@example((UNIX + 0.1, 1.0, 0.0))
@example((UNIX * 10**6 + 1, 7.0, 0.0))
@example((UNIX * 10**6 + 123_456, 40_000.0, UNIX * 10**6))
@example((UNIX + 0.02, 0.04, float(UNIX)))
def test_the_phase_is_that_of_rational_arithmetic(case):
    """Whatever the origin of time: no digit is lost, before the shift or after it."""
    t, tau, s = case
    exact = ((Fraction(t) - Fraction(s)) % Fraction(tau)) / Fraction(tau)
    gap = abs(
        Fraction(phase(torch.tensor(t, dtype=None if isinstance(t, int) else torch.float64), f64(tau), f64(s)).item()) - exact
    )
    assert min(gap, 1 - gap) < 1e-12


@given(seeds)
def test_phases_of_a_whole_tensor_are_those_of_its_numbers(seed):
    """Vectorised code takes other paths than one number does."""
    torch.manual_seed(seed)
    t = torch.randn(67).double() * 10 ** (20 * torch.rand(67).double())
    tau = 10 ** (12 * torch.rand(67).double() - 6)
    s = torch.randn(67).double() * tau
    for now in (t, UNIX * 10**6 + (1e12 * (t.frac() - 0.5)).long()):
        phi = phase(now, tau, s)
        assert phi.dtype == torch.float64
        assert ((phi >= 0) & (phi < 1)).all()
        alone = torch.stack([phase(a, b, c) for a, b, c in zip(now, tau, s, strict=True)])
        assert (apart(phi, alone) < 1e-12).all()


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32]
)
def test_every_dtype_of_time_means_its_number(dtype):
    t = torch.tensor([0, 1, 2, 5, 100], dtype=dtype)
    assert torch.equal(phase(t, f64(7.0), f64(3.0)), phase(t.double(), f64(7.0), f64(3.0)))


# The openness


@pytest.mark.parametrize("shape, k", [("triangle", [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]), ("square", [1.0, 1.0, 1.0, 1.0, 0.0, 0.0])])
def test_a_triangle_rises_to_one_in_the_middle_and_falls_to_zero_and_a_square_is_fully_open_or_closed(shape, k):
    phi = f64([0.0, 0.025, 0.05, 0.075, 0.1, 0.5])
    torch.testing.assert_close(openness(phi, f64(0.1), shape=shape), f64(k), rtol=0, atol=1e-12)


@given(phases, ratios, st.floats(0.0, 1.0), shapes)
def test_a_gate_is_open_in_its_share_of_the_cycle_and_the_leak_acts_in_the_rest(phi, r_on, alpha, shape):
    tight, leaky = openness(f64(phi), f64(r_on), 0.0, shape), openness(f64(phi), f64(r_on), alpha, shape)
    if phi < r_on:
        assert leaky == tight
        assert tight.item() == pytest.approx(1.0 if shape == "square" else 1 - abs(2 * phi / r_on - 1))
    else:
        assert tight == 0
        assert leaky.item() == pytest.approx(alpha * phi)


# The gradients


@given(times, st.floats(0.1, 1e4), st.floats(-1e4, 1e4))
def test_the_phases_gradients_are_those_of_t_minus_s_over_tau(t, tau, s):
    """dphi/dtau = -(t - s) / tau**2, the whole of it: growing with absolute time, floor term included. dphi/ds = -1 / tau."""
    period, shift = f64(tau).requires_grad_(), f64(s).requires_grad_()
    to_period, to_shift = torch.autograd.grad(phase(f64(t), period, shift), (period, shift))
    assert to_period.item() == pytest.approx(-(t - s) / tau**2, rel=1e-9, abs=1e-14 * (abs(t) + abs(s) + tau) / tau**2)
    assert to_shift.item() == pytest.approx(-1 / tau, rel=1e-12)


@given(phases, ratios, leaks, shapes)
@example(0.25, 0.5, 0.0, "triangle")  # the peak
def test_slopes_are_what_autograd_finds(phi, r_on, alpha, shape):
    at, ratio = f64([phi]).requires_grad_(), f64([r_on]).requires_grad_()
    k = openness(at, ratio, alpha, shape).sum() + 0 * (at + ratio).sum()
    for got, want in zip(slopes(f64([phi]), f64([r_on]), alpha, shape), torch.autograd.grad(k, (at, ratio)), strict=True):
        torch.testing.assert_close(got, want)


@given(seeds, leaks, shapes)
def test_a_gates_hand_made_gradients_are_what_autograd_finds(seed, alpha, shape):
    torch.manual_seed(seed)
    leaves = [f64(low + width * torch.rand(5).double()).requires_grad_() for low, width in ((1, 9), (0, 10), (0.05, 0.95))]
    gate = TimeGate(*leaves, alpha, shape)
    t, to_k = 2000 * torch.rand(7).double() - 1000, torch.rand(7, 5).double() - 0.5
    found = torch.autograd.grad((gate(t) * to_k).sum() + 0 * sum(leaf.sum() for leaf in leaves), leaves)
    by_hand = gate.gradients(t.unsqueeze(-1), to_k)
    for got, want in zip(by_hand, found, strict=True):
        torch.testing.assert_close(got.sum(0).detach(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("start", [-50.0, 0.0, 1e4])
@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradcheck_away_from_the_corners(shape, alpha, start):
    period, ratio = f64([3.0, 7.3, 11.9, 23.1]), f64([0.3, 0.6, 0.9, 1.0])
    shift = f64([0.5, -2.0, 30.0, 100.0])
    t = start + 40 * torch.rand(60, dtype=torch.float64)
    here = TimeGate(period, shift, ratio).phase(t.unsqueeze(-1))
    corners = torch.stack([torch.zeros(4), ratio / 2, ratio])
    far = (apart(here.unsqueeze(0), corners.unsqueeze(1)) > 0.01).all(0).all(-1)
    t = t[far]
    assert len(t) > 10

    def k(period, shift, ratio):
        return TimeGate(period, shift, ratio, alpha, shape)(t) + 0 * (period + shift + ratio)

    assert torch.autograd.gradcheck(k, [leaf.requires_grad_() for leaf in (period, shift, ratio)])


# Whatever an optimiser does


@given(st.one_of(anything, st.floats(1e-6, 1.0)), st.sampled_from([(1e-12, math.inf), (1e-6, 1.0)]))
@example(0.0, (1e-12, math.inf))
@example(-0.0, (1e-6, 1.0))
@example(-1e308, (1e-12, math.inf))
@example(1e308, (1e-12, math.inf))
@example(5e-324, (1e-6, 1.0))
def test_bounded_is_the_nearest_in_bounds_and_its_gradient_passes(value, bounds):
    x = f64([value]).requires_grad_()
    y = bounded(x, *bounds)
    assert y.item() == bounded(f64([value]), *bounds).item() == min(max(value, bounds[0]), bounds[1])
    y.backward()
    assert x.grad.item() == 1


@given(anything, st.floats(-1e12, 1e12), anything, st.floats(-1e15, 1e15), leaks, shapes)
@example(0.0, 0.0, 0.0, 1e9, 0.0, "triangle")
@example(-3.0, 1.0, -0.5, 1e6, 0.001, "triangle")
@example(1e-300, 1.0, 1e-300, 1e6, 0.001, "triangle")
@example(1e300, 1.0, 1e300, 1e6, 0.001, "triangle")
@example(5e-324, -1e12, 5e-324, 1e15, 0.3, "square")
def test_no_period_or_ratio_gives_nan_and_every_gradient_is_finite(tau, s, r_on, t, alpha, shape):
    leaves = [f64([value]).requires_grad_() for value in (tau, s, r_on)]
    k = TimeGate(*leaves, alpha, shape).bounded()(f64([t]))
    assert ((k >= 0) & (k <= 1)).all()
    for grad in torch.autograd.grad(k.sum() + 0 * sum(leaf.sum() for leaf in leaves), leaves):
        assert grad.isfinite().all()
    by_hand = TimeGate(*(leaf.detach() for leaf in leaves), alpha, shape).bounded().gradients(f64([t]), torch.ones(1))
    for grad in by_hand:
        assert grad.isfinite().all()
