"""What the kernels compute, on the caller's stream, in graphs, under compilation and autocast, in several processes."""

import threading
from dataclasses import replace

import pytest
import torch

from contract import Case, assert_contract
from on_gpu import batch, gradients, layer
from phased import PhasedGRU, PhasedLSTM
from phased.cell import CELLS
from phased.init import LogUniform
from phased.ops.cuda import replay
from phased.ops.cuda import steps as single_steps

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("hidden", [1, 7, 110, 129, 256, 1024])
def test_kernels_equal_the_float64_reference_at_every_size(cell, leak, hidden):
    case = Case(
        cell,
        steps=14,
        batch=3,
        inputs=5,
        hidden=hidden,
        leak=leak,
        ratio=(0.05, 0.3),
        lengths=[14, 0, 9],
        peephole=cell == "lstm",
    )
    assert_contract(case.poison_padding(), "cuda")
    single = replace(case, dtype=torch.float32, lengths=None)
    assert_contract(single, "cuda")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("inputs", [31, 32, 70])
@pytest.mark.parametrize("ratio", [(0.01, 0.05), (0.3, 0.9)])
def test_wide_input_may_be_multiplied_for_all_units_at_once(cell, leak, inputs, ratio):
    case = Case(cell, steps=70, batch=3, inputs=inputs, hidden=130, leak=leak, ratio=ratio, lengths=[70, 0, 9])
    assert_contract(case.poison_padding(), "cuda")
    assert_contract(replace(case, dtype=torch.float32, lengths=None), "cuda")


@pytest.mark.parametrize("hidden", [116, 119, 128, 200, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_that_do_not_fit_shared_memory_may_have_every_unit_open(hidden, dtype):
    assert_contract(Case(steps=40, batch=3, hidden=hidden, ratio=(1.0, 1.0), dtype=dtype), "cuda")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [116, 119, 124, 128])
@pytest.mark.parametrize("batch", [5, 140, 280, 600])  # sequences of a multiprocessor: one, two, three, five
@pytest.mark.parametrize("ratio", [(0.02, 0.1), (0.1, 0.6)])
def test_layers_whose_last_units_have_weights_beyond_shared_memory(cell, hidden, batch, ratio):
    lengths = [(7 * b) % 30 for b in range(batch)]
    options = {"peephole": cell == "lstm", "dtype": torch.float32, "ratio": ratio, "lengths": lengths}
    assert_contract(Case(cell, steps=29, batch=batch, inputs=3, hidden=hidden, **options).poison_padding(), "cuda")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_layer_too_large_for_one_launch_is_computed_step_by_step(cell):
    assert_contract(Case(cell, steps=9, batch=2, hidden=3000, ratio=(0.05, 0.3), lengths=[9, 4], dtype=torch.float32), "cuda")


def test_a_layer_too_large_for_the_kernels_of_open_units_computes_every_unit():
    case = Case("lstm", steps=5, batch=2, hidden=4900, peephole=True, ratio=(0.05, 0.3), lengths=[5, 2], dtype=torch.float32)
    assert_contract(case, "cuda")


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("units", [256, 301])
@pytest.mark.parametrize("steps", [5, 64, 75])
def test_recorded_steps_give_the_bits_of_single_ones(cls, units, steps):
    single_steps.GRAPHS = single_steps.Graphs()
    rnn, (x, time) = layer(units, 0.01, cls), batch(steps)
    first = gradients(rnn, x, time)
    for _ in range(2):  # recorded, and replayed
        assert all(torch.equal(a, b) for a, b in zip(gradients(rnn, x, time), first, strict=True))
    other = gradients(rnn, 2 * x, 3 * time, lengths=[steps - n % 3 for n in range(9)])
    single_steps.GRAPHS = single_steps.Graphs()
    again = gradients(rnn, 2 * x, 3 * time, lengths=[steps - n % 3 for n in range(9)])
    assert all(torch.equal(a, b) for a, b in zip(other, again, strict=True))


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("steps", [5, 64, 75])
def test_recorded_steps_give_the_bits_of_single_ones_to_the_initial_state(cls, steps):
    single_steps.GRAPHS = single_steps.Graphs()
    rnn, (x, time) = layer(256, 0.01, cls), batch(steps)
    found = []
    for _ in range(3):  # single steps, recorded ones, and replayed ones
        state = [torch.ones(1, x.shape[1], 256, device="cuda", requires_grad=True) for _ in rnn.state_names]
        rnn(x, time, tuple(state) if len(state) > 1 else state[0])[0].square().sum().backward()
        found.append([s.grad for s in state])
    for again in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(again, found[0], strict=True))


def test_streams_do_not_share_recorded_steps():
    rnn, (x, time) = layer(256, 0.01), batch(300)
    expected = [rnn(factor * x, time)[0].detach() for factor in (1, 2, 1, 2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    got = []
    for turn in range(4):
        with torch.cuda.stream(streams[turn % 2]):
            got.append(rnn((1 + turn % 2) * x, time)[0].detach())
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("units", [40, 200, 300])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_lengths_on_the_gpu_that_make_no_sense_are_taken_for_the_nearest_that_do(units, leak):
    rnn, (x, time) = layer(units, leak), batch(20, 3)
    got = gradients(rnn, x, time, lengths=torch.tensor([-5, 1000, 7], device="cuda"))
    for a, b in zip(got, gradients(rnn, x, time, lengths=[0, 20, 7]), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("ratio", [(0.02, 0.1), (0.5, 0.9), (1.0, 1.0)])
def test_many_sequences_share_a_block_and_any_number_of_units_may_be_open(leak, ratio):
    assert_contract(Case(steps=40, batch=300, hidden=40, leak=leak, ratio=ratio, dtype=torch.float32), "cuda")


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_the_same_input_gives_the_same_bits(cls, leak):
    rnn, (x, time) = layer(110, leak, cls), batch(200, 40)
    once, again = gradients(rnn, x, time), gradients(rnn, x, time)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_kernels_run_on_the_callers_stream(leak):
    rnn, (x, time) = layer(leak=leak), batch()
    expected = gradients(rnn, x, time)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        late = torch.zeros_like(x)
        torch.cuda._sleep(50_000_000)  # the input is not there yet
        late.copy_(x)
        got = gradients(rnn, late, time)
    stream.synchronize()
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("units", [33, 260, 520])
def test_a_training_step_can_be_recorded_as_a_graph(leak, units):
    rnn, (x, time) = layer(units, leak), batch()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            rnn.zero_grad(set_to_none=True)
            rnn(x, time)[0].square().sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    rnn.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = rnn(x, time)[0]
        output.square().sum().backward()
    new_x, new_time = x.flip(0) + 1, time * 1.7
    x.copy_(new_x), time.copy_(new_time)  # another schedule, of other events
    graph.replay()
    recorded = [output.detach().clone(), *(p.grad.clone() for p in rnn.parameters())]
    del output  # and with it what of autograd belongs to the graph's stream
    rnn.zero_grad(set_to_none=True)
    expected = rnn(new_x, new_time)[0]
    expected.square().sum().backward()
    for got, want in zip(recorded, [expected.detach(), *(p.grad for p in rnn.parameters())], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ratio_on", [0.03, 0.2, 0.6])
@pytest.mark.parametrize("units", [33, 110, 128])
def test_a_recorded_step_has_the_bits_of_others_whatever_it_was_recorded_with(units, ratio_on):
    rnn, (x, time) = layer(units, ratio_on=ratio_on), batch(100)
    expected = gradients(rnn, x, time)
    with torch.no_grad():
        rnn.ratio_on_l0.fill_(0.3)
    recorded, y = torch.cuda.CUDAGraph(), x.detach().requires_grad_()
    with torch.cuda.graph(recorded):
        output = rnn(y, time)[0]
        found = torch.autograd.grad(output.square().sum(), [y, *rnn.parameters()])
    with torch.no_grad():
        rnn.ratio_on_l0.fill_(ratio_on)
    recorded.replay()
    for one, other in zip((output.detach(), *found), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("units", [113, 114, 116, 118, 119])
def test_layers_that_barely_fit_shared_memory_give_the_same_bits_whether_their_events_are_counted_or_guessed(units):
    rnn, (x, time) = layer(units, ratio_on=0.03), batch(100)
    counted, *_ = [rnn(x, time)[0].detach() for _ in range(4)]
    guessed = rnn(x, time)[0].detach()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        output = rnn(x, time)[0].detach()
    recorded.replay()
    assert torch.equal(counted, guessed)
    assert torch.equal(counted, output)
    with torch.no_grad():
        assert torch.equal(rnn(x, time)[0], counted)


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_a_compiled_layer_computes_the_same(leak):
    rnn, (x, time) = layer(leak=leak), batch()
    expected = gradients(rnn, x, time)
    compiled = torch.compile(rnn, fullgraph=True)
    rnn.zero_grad()
    y = x.detach().requires_grad_()
    output, _ = compiled(y, time)
    output.square().sum().backward()
    for got, want in zip([output.detach(), y.grad, *(p.grad for p in rnn.parameters())], expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("hidden, batch", [(20, 3), (110, 3), (110, 200), (130, 3), (130, 200), (300, 3)])
def test_under_autocast_the_tape_is_rounded(low, cell, leak, hidden, batch):
    sizes = {"steps": 20, "batch": batch, "inputs": 5, "hidden": hidden, "lengths": [20, 0, 9] + [20] * (batch - 3)}
    case = Case(cell, **sizes, leak=leak, dtype=torch.float32, autocast=low, ratio=(0.05, 0.5), peephole=cell == "lstm")
    assert_contract(case.poison_padding(), "cuda")
    half = case.run("cuda")
    case.autocast = None
    assert all(torch.equal(one, other) for one, other in zip(case.run("cuda"), half, strict=True))


@pytest.mark.parametrize("low, error", [(torch.bfloat16, 0.02), (torch.float16, 0.004)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [20, 130])
def test_gates_that_are_almost_one_keep_what_is_missing_on_a_rounded_tape(low, error, cell, hidden):
    """A thousand events of units that forget a little at each: gates rounded to 1 would forget nothing on the way back."""
    case = Case(cell, steps=1000, batch=2, hidden=hidden, ratio=(1.0, 1.0), dtype=torch.float32)
    case.leaves["bias_ih"].chunk(CELLS[cell].gates)[1].add_(6.0)  # the forget gates of an LSTM, the gates z of a GRU
    _, full = case.gradients("cuda", to="final")
    case.autocast = low
    _, rounded = case.gradients("cuda", to="final")
    for name in full.keys() - {"period", "shift", "ratio_on"}:
        assert float((full[name] - rounded[name]).norm() / full[name].norm().clamp(min=1e-9)) < error, name


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_a_training_under_autocast_needs_less_memory(leak):
    rnn, (x, time) = layer(110, leak), batch(2000, 64)
    gradients(rnn, x, time)

    def kept():
        before = torch.cuda.memory_allocated()
        output = rnn(x, time)[0]
        used = torch.cuda.memory_allocated() - before - output.nbytes
        output.sum().backward()
        rnn.zero_grad()
        return used

    full = kept()
    with torch.autocast("cuda", torch.bfloat16):
        assert kept() < 0.75 * full


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_autocast_rounds_what_a_backward_pass_reads_and_nothing_else(leak):
    rnn, (x, time) = layer(110, leak), batch(200, 8)
    time = time + 1e9
    output, *full = gradients(rnn, x, time)
    with torch.autocast("cuda", torch.bfloat16):
        same, *low = gradients(rnn, x, time)
    assert torch.equal(same, output)
    for a, b in zip(low, full, strict=True):
        assert a.dtype == b.dtype
        assert float((a - b).norm() / b.norm().clamp(min=1e-9)) < 0.02
    assert not all(torch.equal(a, b) for a, b in zip(low, full, strict=True))


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_stacked_and_bidirectional_layers_equal_the_reference(leak):
    rnn = layer(20, leak, num_layers=2, bidirectional=True)
    x, time = batch(30, 5)
    lengths = [30, 0, 7, 29, 12]
    got = gradients(rnn, x, time, lengths=lengths)
    rnn.backend = "reference"
    for a, b in zip(got, gradients(rnn, x, time, lengths=lengths), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_data_parallel_training_reduces_the_gradients(tmp_path):
    rnn, (x, time) = layer(), batch()
    expected = gradients(rnn, x, time)[2:]
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        rnn.zero_grad()
        parallel = torch.nn.parallel.DistributedDataParallel(rnn)
        parallel(x, time)[0].square().sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    for a, b in zip([p.grad for p in rnn.parameters()], expected, strict=True):
        torch.testing.assert_close(a, b)


def test_noncontiguous_input_time_and_gradient_are_read_where_they_are():
    rnn, (x, time) = layer(batch_first=True), batch()
    expected = gradients(rnn, x.transpose(0, 1).contiguous(), time.t().contiguous())
    got = gradients(rnn, x.transpose(0, 1), time.t())
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_a_million_steps_fit():
    rnn = layer(110, ratio_on=0.05, period=LogUniform(3, 400))
    x, time = torch.randn(200_000, 2, 3, device="cuda"), torch.rand(200_000, 2, device="cuda", dtype=torch.float64).cumsum(0)
    output, _ = rnn(x, time)
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in rnn.parameters())


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("units", [33, 256])
def test_without_a_state_a_sequence_starts_from_zeros(cls, units):
    rnn, (x, time) = layer(units, cls=cls), batch(40)
    zeros = torch.zeros(1, x.shape[1], units, device="cuda")
    without, with_zeros = gradients(rnn, x, time), gradients(rnn, x, time, hx=(zeros, zeros) if cls is PhasedLSTM else zeros)
    for a, b in zip(without, with_zeros, strict=True):
        assert torch.equal(a, b)


def test_a_thread_that_has_never_used_the_gpu_can_use_the_kernels():
    rnn, (x, time) = layer(), batch()
    expected, got = gradients(rnn, x, time)[0], []
    thread = threading.Thread(target=lambda: got.append(rnn(x, time)[0].detach()))
    thread.start()
    thread.join()
    assert torch.equal(got[0], expected)


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("units", [40, 128])
def test_calls_like_earlier_ones_give_the_bits_of_first_ones(monkeypatch, cls, leak, units):
    rnn, (x, time) = layer(units, leak, cls=cls), batch(60)
    rnn._openings.active = False
    repeats = [gradients(rnn, x * factor, time + factor) for factor in range(6)]
    assert rnn._calls is not None
    assert rnn._calls._calls
    monkeypatch.setattr(replay, "LISTED_AFTER", 10**9)
    replay.CALLS.clear()
    rnn._calls._calls.clear()
    firsts = [gradients(rnn, x * factor, time + factor) for factor in range(6)]
    assert not rnn._calls._calls
    for one, other in zip(repeats, firsts, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_threads_and_streams_may_repeat_the_same_passes_at_once():
    rnn, (x, time) = layer(), batch()
    rnn._openings.active = False
    expected = [rnn(factor * x, time)[0].detach() for factor in range(4)]
    wrong, streams = [], [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()

    def run(number):
        with torch.cuda.stream(streams[number]):
            for turn in range(40):
                factor = (number + turn) % 4
                got = rnn(factor * x, time)[0].detach()
                if not torch.equal(got, expected[factor]):
                    wrong.append((number, turn))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
