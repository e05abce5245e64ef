"""Large layers: units are spread over the multiprocessors, whose blocks exchange numbers, or every step is a launch."""

import pytest
import torch

from contract import Case, assert_contract
from on_gpu import batch, gradients, layer
from phased import PhasedGRU, PhasedLSTM
from phased.ops.cuda import layout

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["spread", "step by step"])
def way(request, monkeypatch):
    """How every layer is computed."""
    if request.param == "spread":
        monkeypatch.setattr(layout, "SPREAD_FROM", 1)
        monkeypatch.setattr(layout, "SPREAD_ALWAYS", 1)
    else:
        monkeypatch.setattr(layout, "streamable", lambda units, size, device: False)
    for cached in (layout.plan, layout.step_plan):
        cached.cache_clear()
    yield request.param
    for cached in (layout.plan, layout.step_plan):
        cached.cache_clear()


spread = pytest.mark.parametrize("way", ["spread"], indirect=True)
step_by_step = pytest.mark.parametrize("way", ["step by step"], indirect=True)
each_layer = pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [1, 8, 41, 512, 517, 1024, 2050])
@pytest.mark.parametrize("size", [1, 7, 32, 135, 300])
@pytest.mark.parametrize("ratio", [(0.02, 0.1), (0.3, 1.0)])
def test_they_equal_the_reference_at_every_size(way, cell, hidden, size, ratio):
    steps = 23 if way == "spread" else 13
    lengths = [steps, 0, 9, 1, steps - 1, steps, 2, *range(300)][:size]
    options = {"peephole": cell == "lstm", "dtype": torch.float32, "ratio": ratio}
    case = Case(cell, steps=steps, batch=size, inputs=3, hidden=hidden, lengths=[min(n, steps) for n in lengths], **options)
    assert_contract(case.poison_padding(), "cuda")


@step_by_step
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [5, 130, 1100])
@pytest.mark.parametrize("size", [3, 33])
def test_they_equal_the_reference_in_float64(way, cell, hidden, size):
    case = Case(cell, steps=9, batch=size, hidden=hidden, ratio=(0.05, 0.5), dtype=torch.float64)
    assert_contract(case, "cuda")


@each_layer
@pytest.mark.parametrize("units", [64, 520])
def test_they_give_the_same_bits_every_time(way, cls, units):
    rnn, (x, time) = layer(units, 0.0, cls), batch(200)
    first = gradients(rnn, x, time)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(gradients(rnn, x, time), first, strict=True))


def test_inference_needs_no_tape(way):
    rnn, (x, time) = layer(520, 0.0), batch(60)
    expected = rnn(x, time)[0]
    with torch.no_grad():
        assert torch.equal(rnn(x, time)[0], expected)


@spread
def test_two_streams_may_run_them_at_once(way):
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


@spread
@pytest.mark.filterwarnings("ignore:.*NaN")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_do_not_keep_blocks_waiting(way, number):
    rnn, (x, time) = layer(520, 0.0), batch(50)
    x = x.clone()
    x[20, 1] = number
    output, _ = rnn(x, time)
    output.sum().backward()
    torch.cuda.synchronize()
    assert output[:20].isfinite().all()
    assert output[:, 0].isfinite().all()


@spread
def test_all_bits_of_a_gradient_may_be_set(way):
    """The mark of a number that is not yet written may also come from outside, as a NaN."""
    rnn, (x, time) = layer(520, 0.0), batch(50)
    output, _ = rnn(x, time)
    gradient = torch.full_like(output, -1).view(torch.int32).fill_(-1).view(torch.float32)
    output.backward(gradient)
    torch.cuda.synchronize()
    assert rnn.weight_hh_l0.grad.isnan().any()


@step_by_step
@pytest.mark.filterwarnings("ignore:.*NaN")
def test_closed_units_whose_weights_are_not_finite_change_nothing(way):
    rnn, (x, time) = layer(70, 0.0), batch(30)
    with torch.no_grad():
        rnn.period_l0[0], rnn.shift_l0[0], rnn.ratio_on_l0[0] = 1e6, 5e5, 1e-3
    expected = gradients(rnn, x, time)
    with torch.no_grad():
        rnn.weight_hh_l0.view(4, 70, 70)[:, 0] = float("nan")
    assert all(torch.equal(a, b) for a, b in zip(gradients(rnn, x, time), expected, strict=True))


@step_by_step
@pytest.mark.parametrize("units", [70, 520])
def test_a_recorded_graph_gives_the_same_bits(way, units):
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
