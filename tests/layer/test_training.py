"""Training: finite whatever the times and parameters, with every optimiser, and it learns."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from layers import Layer, each_layer
from phased import PhasedLSTM
from phased.init import LogUniform
from strategies import apart, clocks, f64


def train(rnn: Layer, optimiser: torch.optim.Optimizer, time: Tensor, steps: int = 20) -> list[float]:
    """Fit a constant target; the losses."""
    x, losses = torch.randn(*time.shape, rnn.input_size), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (rnn(x, time)[0] - 0.3).square().mean()
        loss.backward()
        for name, parameter in rnn.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), name
        assert nn.utils.clip_grad_norm_(rnn.parameters(), 1.0).isfinite()
        optimiser.step()
        losses.append(loss.item())
    assert all(map(math.isfinite, losses))
    assert all(parameter.isfinite().all() for parameter in rnn.parameters())
    return losses


@each_layer
@pytest.mark.parametrize("leak", [0.0, 0.001])
@pytest.mark.parametrize("name", ["period", "ratio_on"])
@pytest.mark.parametrize("value", [0.0, -1.0, -1e6, 1e-30, 1e30])
def test_training_stays_finite_when_a_parameter_was_pushed_where_it_makes_no_sense(make, leak, name, value):
    rnn = make(2, 8, period=10.0, ratio_on=0.2, leak=leak, learn_ratio_on=True)
    with torch.no_grad():
        rnn.get_parameter(f"{name}_l0")[::2] = value
    train(rnn, torch.optim.Adam(rnn.parameters(), lr=0.01), clocks(30, 4, span=1e3, start=1e6), steps=8)
    output, _ = rnn.eval()(torch.randn(30, 4, 2), clocks(30, 4))
    assert output.isfinite().all()
    assert "nan" not in repr(rnn)


OPTIMISERS = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
FAST = [{"foreach": True}, {"fused": True}, {"capturable": False, "foreach": False}]


@pytest.mark.parametrize(
    "name, options", [*((name, {}) for name in OPTIMISERS), *(("Adam", options) for options in FAST)], ids=str
)
def test_every_optimiser_of_torch_trains_the_mixed_dtypes(name, options):
    rnn = PhasedLSTM(2, 8, period=10.0, ratio_on=0.3, learn_ratio_on=True)
    before = copy.deepcopy(rnn.state_dict())
    train(rnn, getattr(torch.optim, name)(rnn.parameters(), lr=0.01, **options), clocks(30, 4))
    assert all(not torch.equal(value, before[key]) for key, value in rnn.state_dict().items())


@each_layer
def test_learning_lowers_the_loss(make):
    rnn = make(2, 16, period=LogUniform(1, 20), ratio_on=0.3)
    losses = train(rnn, torch.optim.Adam(rnn.parameters(), lr=0.02), clocks(30, 4), steps=40)
    assert losses[-1] < 0.5 * losses[0]


def test_a_gate_learns_when_to_open():
    """One unit, woken at the wrong time: the gradient moves its shift until it opens when the event comes."""
    rnn = PhasedLSTM(1, 1, period=10.0, shift=1.0, ratio_on=0.9, learn_period=False, leak=0.001, dtype=torch.float64)
    with torch.no_grad():
        rnn.bias_ih_l0.copy_(f64([5.0, 0.0, 5.0, 5.0]))
    optimiser = torch.optim.Adam([rnn.shift_l0], lr=0.05)
    x, time = torch.ones(1, 1, 1, dtype=torch.float64), f64([[2.0]])
    best = rnn.ratio_on_l0.item() / 2  # the phase of the peak
    before = apart(rnn.gates()[0].phase(time), f64(best)).item()
    for _ in range(200):
        optimiser.zero_grad()
        (-rnn(x, time)[0].sum()).backward()
        optimiser.step()
    after = apart(rnn.gates()[0].phase(time), f64(best)).item()
    assert before > 0.3
    assert after < 0.02
