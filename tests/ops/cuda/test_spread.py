"""Layers whose units are spread over the multiprocessors, so that blocks exchange numbers while they run."""

import pytest
import torch

from contract import Case, assert_contract
from on_gpu import assert_inference_needs_no_tape, assert_same_bits_every_time, batch, gradients, layer
from phased import PhasedGRU, PhasedLSTM
from phased.ops.cuda import layout

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _all_layers_are_spread(monkeypatch):
    monkeypatch.setattr(layout, "SPREAD_FROM", 1)
    monkeypatch.setattr(layout, "SPREAD_ALWAYS", 1)
    layout.plan.cache_clear()
    yield
    layout.plan.cache_clear()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [1, 8, 41, 300, 512, 517, 700, 1000, 1024])
@pytest.mark.parametrize("size", [1, 7, 32, 135])
@pytest.mark.parametrize("ratio", [(0.02, 0.1), (0.3, 1.0)])
def test_they_equal_the_reference_at_every_size(cell, hidden, size, ratio):
    lengths = [23, 0, 9, 1, 22, 23, 2, *range(25), *range(104)][:size]
    options = {"peephole": cell == "lstm", "dtype": torch.float32, "ratio": ratio}
    case = Case(cell, steps=23, batch=size, inputs=3, hidden=hidden, lengths=[min(n, 23) for n in lengths], **options)
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("units", [64, 520])
def test_they_give_the_same_bits_every_time(cls, units):
    assert_same_bits_every_time(layer(units, 0.0, cls), *batch(200))


def test_two_streams_may_run_them_at_once():
    rnn, (x, time) = layer(520, 0.0), batch(300)
    expected, streams = gradients(rnn, x, time), [torch.cuda.Stream() for _ in range(2)]
    found = []
    for _ in range(5):
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found.append(gradients(rnn, x, time))
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for each in found for a, b in zip(each, expected, strict=True))


@pytest.mark.filterwarnings("ignore:.*NaN")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_do_not_keep_blocks_waiting(number):
    rnn, (x, time) = layer(520, 0.0), batch(50)
    x = x.clone()
    x[20, 1] = number
    output, _ = rnn(x, time)
    output.sum().backward()
    torch.cuda.synchronize()
    assert output[:20].isfinite().all()
    assert output[:, 0].isfinite().all()


def test_all_bits_of_a_gradient_may_be_set():
    """The mark of a number that is not yet written may also come from outside, as a NaN."""
    rnn, (x, time) = layer(520, 0.0), batch(50)
    output, _ = rnn(x, time)
    gradient = torch.full_like(output, -1).view(torch.int32).fill_(-1).view(torch.float32)
    output.backward(gradient)
    torch.cuda.synchronize()
    assert rnn.weight_hh_l0.grad.isnan().any()


def test_inference_needs_no_tape():
    assert_inference_needs_no_tape(layer(520, 0.0), *batch(60))
