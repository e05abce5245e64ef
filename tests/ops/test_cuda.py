"""What only the kernels have: layouts, streams, graphs, and what happens where they cannot run."""

import copy
import itertools
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from contract import Case, assert_contract
from phased import PhasedGRU, PhasedLSTM, ops
from phased.init import LogUniform
from phased.ops import compiler, cuda, landing
from phased.ops import layout as layout_of

gpu = pytest.mark.gpu


def layer(units=33, leak=0.0, cls=PhasedLSTM, **options):
    torch.manual_seed(0)
    options = {"period": LogUniform(2, 30), "ratio_on": 0.2, "learn_ratio_on": True, "backend": "cuda"} | options
    return cls(3, units, leak=leak, device="cuda", **options)


def batch(steps=60, size=9):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(steps, size, 3, generator=generator)
    return x.cuda(), torch.rand(steps, size, dtype=torch.float64, generator=generator).cumsum(0).cuda()


def gradients(rnn, x, time, **options):
    rnn.zero_grad()
    x = x.detach().requires_grad_()
    output, _ = rnn(x, time, **options)
    output.square().sum().backward()
    return [output.detach(), x.grad, *(p.grad for p in rnn.parameters())]


@gpu
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


@gpu
@pytest.mark.parametrize("hidden", [116, 200, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_that_do_not_fit_shared_memory_may_have_every_unit_open(hidden, dtype):
    assert_contract(Case(steps=40, batch=3, hidden=hidden, ratio=(1.0, 1.0), dtype=dtype), "cuda")


# Shifts and times of steps, in units of a period, at which a unit is open for a twentieth of it.
SITUATIONS = {
    "nobody is open": (0.9, lambda steps: torch.full((steps,), -0.03)),
    "one after another": (0.9, lambda steps: torch.linspace(0, 10, steps)),
    "all at once": (0.0, lambda steps: torch.linspace(0, 10, steps)),
    "all the time": (0.0, lambda steps: torch.full((steps,), 0.02)),
}


@gpu
@pytest.mark.parametrize("units", [20, 110, 200])
@pytest.mark.parametrize("before, now", [*itertools.permutations(SITUATIONS, 2)])
def test_a_batch_may_have_far_more_events_than_the_last_one(monkeypatch, units, before, now):
    rnn, (x, _) = layer(units, period=100.0, ratio_on=0.05), batch(400, 8)
    taken = []
    take = cuda.Call.take
    monkeypatch.setattr(cuda.Call, "take", lambda self, room, *place: taken.append(room) or take(self, room, *place))

    def run(rnn, situation):
        shifts, times = SITUATIONS[situation]
        with torch.no_grad():
            rnn.shift_l0.copy_(torch.linspace(0, 100 * shifts, units))
        taken.clear()
        return gradients(rnn, x, 100 * times(400).double()[:, None].expand(400, 8).cuda())

    fresh = copy.deepcopy(rnn)
    cuda.EXPECTED.clear()
    expected = run(fresh, now)
    assert len(taken) == 1
    exact = taken[0].tape
    assert taken[0].arrivals == exact  # a first batch waits for its number
    run(rnn, before)
    for a, b in zip(run(rnn, now), expected, strict=True):
        assert torch.equal(a, b)
    assert len(taken) == (1 if taken[0].tape >= exact else 2)
    assert len(taken) == 2 or units > 110 or before != "nobody is open"
    for a, b in zip(run(rnn, now), expected, strict=True):
        assert torch.equal(a, b)
    assert len(taken) == 1


@gpu
def test_a_number_that_is_not_told_is_read_where_it_was_counted(monkeypatch):
    rnn, (x, time) = layer(110), batch(200, 8)
    expected = gradients(rnn, x, time)
    monkeypatch.setattr(landing.Landing, "wait", lambda self, ticket: None)
    for a, b in zip(gradients(rnn, x, time), expected, strict=True):
        assert torch.equal(a, b)


@gpu
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_layer_computes_the_same_batch_after_batch(reentrant):
    rnn, (x, time) = layer(110), batch(200, 8)
    for scale in (1, 3, 0.1):  # more and fewer events than the last time
        plain = gradients(rnn, x, scale * time)
        x_again = x.clone().requires_grad_()
        rnn.zero_grad()
        output = checkpoint(lambda x, time: rnn(x, time)[0], x_again, scale * time, use_reentrant=reentrant)
        output.square().sum().backward()
        for a, b in zip([output.detach(), x_again.grad, *(p.grad for p in rnn.parameters())], plain, strict=True):
            assert torch.equal(a, b)


@gpu
def test_more_forward_passes_than_places_may_wait_for_their_backward_passes():
    rnn, (x, time) = layer(8), batch(5, 2)
    outputs = [rnn(x, time)[0] for _ in range(landing.PLACES + 50)]
    torch.stack(outputs).sum().backward()
    many = rnn.weight_hh_l0.grad.clone()
    rnn.zero_grad()
    rnn(x, time)[0].sum().backward()
    assert torch.allclose(many, len(outputs) * rnn.weight_hh_l0.grad, rtol=1e-4)


@gpu
@pytest.mark.parametrize("units", [40, 200])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_lengths_on_the_gpu_that_make_no_sense_are_taken_for_the_nearest_that_do(units, leak):
    rnn, (x, time) = layer(units, leak), batch(20, 3)
    got = gradients(rnn, x, time, lengths=torch.tensor([-5, 1000, 7], device="cuda"))
    for a, b in zip(got, gradients(rnn, x, time, lengths=[0, 20, 7]), strict=True):
        assert torch.equal(a, b)


@gpu
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("ratio", [(0.02, 0.1), (0.5, 0.9), (1.0, 1.0)])
def test_many_sequences_share_a_block_and_any_number_of_units_may_be_open(leak, ratio):
    assert_contract(Case(steps=40, batch=300, hidden=40, leak=leak, ratio=ratio, dtype=torch.float32), "cuda")


@gpu
@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_the_same_input_gives_the_same_bits(cls, leak):
    rnn, (x, time) = layer(110, leak, cls), batch(200, 40)
    once, again = gradients(rnn, x, time), gradients(rnn, x, time)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@gpu
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


@gpu
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_a_training_step_can_be_recorded_as_a_graph(leak):
    rnn, (x, time) = layer(leak=leak), batch()
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


@gpu
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


@gpu
def test_autocast_rounds_operands_and_keeps_time_and_states():
    rnn, (x, time) = layer(110), batch(200, 8)
    time = time + 1e9
    full = gradients(rnn, x, time)
    with torch.autocast("cuda", torch.bfloat16):
        low = gradients(rnn, x, time)
    assert low[0].dtype == torch.float32
    for a, b in zip(low, full, strict=True):
        error = float((a - b).norm() / b.norm().clamp(min=1e-9))
        assert error < 0.05
    assert not torch.equal(low[0], full[0])


@gpu
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_stacked_and_bidirectional_layers_equal_the_reference(leak):
    rnn = layer(20, leak, num_layers=2, bidirectional=True)
    x, time = batch(30, 5)
    lengths = [30, 0, 7, 29, 12]
    got = gradients(rnn, x, time, lengths=lengths)
    rnn.backend = "reference"
    for a, b in zip(got, gradients(rnn, x, time, lengths=lengths), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@gpu
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


@gpu
def test_noncontiguous_input_time_and_gradient_are_read_where_they_are():
    rnn, (x, time) = layer(batch_first=True), batch()
    expected = gradients(rnn, x.transpose(0, 1).contiguous(), time.t().contiguous())
    got = gradients(rnn, x.transpose(0, 1), time.t())
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


@gpu
def test_a_million_steps_fit():
    rnn = layer(110, ratio_on=0.05, period=LogUniform(3, 400))
    x, time = torch.randn(200_000, 2, 3, device="cuda"), torch.rand(200_000, 2, device="cuda", dtype=torch.float64).cumsum(0)
    output, _ = rnn(x, time)
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in rnn.parameters())


# Where they cannot run


def test_without_a_gpu_asking_for_the_kernels_says_why():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match=r'backend="cuda" cannot run here: torch sees no CUDA device\..*NVIDIA GPU.*"auto"'):
        PhasedLSTM(1, 2, backend="cuda")


def unusable(monkeypatch, capability=(9, 0), core=None):
    """A machine with a GPU, as far as torch tells."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GeForce GTX 1080")
    monkeypatch.setattr(compiler, "cuda_core", lambda: (object(), object(), core))
    return compiler.missing.__wrapped__(0)


def test_a_gpu_that_is_too_old_is_named(monkeypatch):
    why = unusable(monkeypatch, capability=(6, 1))
    assert why.startswith("GeForce GTX 1080 has compute capability 6.1, the kernels need 8.0")
    assert 'backend="adjoint"' in why


def test_missing_cuda_core_names_the_cure(monkeypatch):
    assert 'pip install "phased[cuda]"' in unusable(monkeypatch, core=compiler_without_cuda_core())


def compiler_without_cuda_core() -> str:
    code = "import sys; sys.modules['cuda.core'] = None; from phased.ops.compiler import cuda_core; print(cuda_core()[2])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_failed_compilation_shows_the_compilers_words(monkeypatch):
    def broken(*_):
        raise RuntimeError("phased's CUDA kernels did not compile for sm_90: line 3: what is this?")

    monkeypatch.setattr(compiler, "common", broken)
    assert "line 3: what is this?" in unusable(monkeypatch)


def test_where_kernels_are_missing_auto_warns_once_and_goes_on(monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda device=None: "the test took them away. Give them back.")
    monkeypatch.setattr(ops, "_WARNED", set())
    with pytest.warns(UserWarning, match="without its kernels, many times slower: the test took them away"):
        assert ops.choose("auto", torch.device("cuda")).name == "adjoint"
    assert ops.choose("auto", torch.device("cuda")).name == "adjoint"  # a second warning would be an error


@gpu
def test_a_layer_too_large_for_the_kernels_runs_without_them_and_says_so():
    rnn = PhasedLSTM(1, 6000, ratio_on=0.01, leak=0.0, device="cuda")
    with pytest.warns(UserWarning, match="without its kernels.*hidden_size=6000"):
        output, _ = rnn(torch.zeros(3, 1, 1, device="cuda"), torch.arange(3, device="cuda").unsqueeze(1))
    assert output.shape == (3, 1, 6000)


@pytest.mark.parametrize("name", ["forward", "backward", "dense_forward", "dense_backward"])
@pytest.mark.parametrize("units", [1, 7, 110, 129, 512, 2048])
@pytest.mark.parametrize("batch", [1, 32, 512])
@pytest.mark.parametrize("size", [4, 8])
def test_a_layout_fits_the_gpu_and_has_a_team_for_every_sequence(monkeypatch, name, units, batch, size):
    class H200:
        multi_processor_count = 132

    monkeypatch.setattr(compiler, "shared_memory", lambda device: 232_448)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: H200)
    for busy, most in ((0, 0), (units // 20, units // 8), (units // 20, units), (units, units)):
        given = (name, units, batch, busy, most, size, 0)
        all_open = most == units or name.startswith("dense")
        if (all_open and size * units == 16384) or (most == units and size * units == 8192 and name == "backward"):
            with pytest.raises(ValueError, match=rf"hidden_size={units} needs .* where {most} units are open.*fewer units"):
                layout_of.plan.__wrapped__(*given)
            continue
        layout = layout_of.plan.__wrapped__(*given)
        assert layout.shared <= 232_448
        assert layout.block <= 1024
        assert layout.grid * layout.teams >= batch
        assert layout.ring % 8 == 0
        if layout.source.startswith("held"):  # events of two to four steps, and one a warp, beside the part that is being fetched
            steps = 4 if most > 32 else {"forward": 3, "backward": 2}[name]
            assert layout.ring * 7 >= 8 * (steps * most + (layout.warps - 2))
            assert layout.ring >= 32  # a lane may look at a slot that is not its own, but not beyond the ring
            assert layout.most >= most
        else:
            assert layout.ring * 7 >= 8 * (2 * most + layout.warps) or name.startswith("dense")


@gpu
@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("units", [33, 256])
def test_without_a_state_a_sequence_starts_from_zeros(cls, units):
    rnn, (x, time) = layer(units, cls=cls), batch(40)
    zeros = torch.zeros(1, x.shape[1], units, device="cuda")
    without, with_zeros = gradients(rnn, x, time), gradients(rnn, x, time, hx=(zeros, zeros) if cls is PhasedLSTM else zeros)
    for a, b in zip(without, with_zeros, strict=True):
        assert torch.equal(a, b)


@gpu
@pytest.mark.parametrize("units", [33, 110, 256])
@pytest.mark.parametrize("size", [9, 300])
def test_inference_that_does_not_ask_for_the_number_of_events_gives_what_training_gives(monkeypatch, units, size):
    rnn, (x, time) = layer(units), batch(50, size)
    trained = rnn(x, time)[0].detach()
    with torch.no_grad():
        assert torch.equal(rnn(x, time)[0], trained)
        monkeypatch.setattr(cuda, "SMALL", 0)  # now it asks
        assert torch.equal(rnn(x, time)[0], trained)


@gpu
def test_a_thread_that_has_never_used_the_gpu_can_use_the_kernels():
    rnn, (x, time) = layer(), batch()
    expected, got = gradients(rnn, x, time)[0], []
    thread = threading.Thread(target=lambda: got.append(rnn(x, time)[0].detach()))
    thread.start()
    thread.join()
    assert torch.equal(got[0], expected)
