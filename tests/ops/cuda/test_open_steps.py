"""Layers whose open units are computed step by step, a launch or two for each."""

import pytest
import torch

from contract import Case, assert_contract
from on_gpu import assert_inference_needs_no_tape, assert_same_bits_every_time, batch, gradients, layer
from phased import PhasedGRU, PhasedLSTM
from phased.ops.cuda import layout

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _all_layers_are_computed_step_by_step(monkeypatch):
    monkeypatch.setattr(layout, "streamable", lambda units, size, device: False)
    layout.step_plan.cache_clear()
    yield
    layout.step_plan.cache_clear()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [1, 8, 41, 300, 517, 1024, 2050])
@pytest.mark.parametrize("size", [1, 7, 32, 70, 300])
@pytest.mark.parametrize("ratio", [(0.02, 0.1), (0.3, 1.0)])
def test_they_equal_the_reference_at_every_size(cell, hidden, size, ratio):
    lengths = [13, 0, 9, 1, 12, 13, 2, *range(300)][:size]
    options = {"peephole": cell == "lstm", "dtype": torch.float32, "ratio": ratio}
    case = Case(cell, steps=13, batch=size, inputs=3, hidden=hidden, lengths=[min(n, 13) for n in lengths], **options)
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [5, 130, 1100])
@pytest.mark.parametrize("size", [3, 33])
def test_they_equal_the_reference_in_float64(cell, hidden, size):
    case = Case(cell, steps=9, batch=size, hidden=hidden, ratio=(0.05, 0.5), dtype=torch.float64)
    assert_contract(case, "cuda")


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("units", [64, 520])
def test_they_give_the_same_bits_every_time(cls, units):
    assert_same_bits_every_time(layer(units, 0.0, cls), *batch(200))


def test_inference_needs_no_tape():
    assert_inference_needs_no_tape(layer(520, 0.0), *batch(60))


@pytest.mark.filterwarnings("ignore:.*NaN")
def test_closed_units_whose_weights_are_not_finite_change_nothing():
    rnn, (x, time) = layer(70, 0.0), batch(30)
    with torch.no_grad():
        rnn.period_l0[0], rnn.shift_l0[0], rnn.ratio_on_l0[0] = 1e6, 5e5, 1e-3
    expected = gradients(rnn, x, time)
    with torch.no_grad():
        rnn.weight_hh_l0.view(4, 70, 70)[:, 0] = float("nan")
    assert all(torch.equal(a, b) for a, b in zip(gradients(rnn, x, time), expected, strict=True))


@pytest.mark.parametrize("units", [70, 520])
def test_a_recorded_graph_gives_the_same_bits(units):
    rnn, (x, time) = layer(units, 0.0), batch(20)
    rnn._openings.active = False  # it counts batches on the CPU
    expected = gradients(rnn, x, time)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        gradients(rnn, x, time)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gradients(rnn, x, time)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
