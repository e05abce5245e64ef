"""Training steps that are recorded once and replayed: the numbers of steps as Python runs them."""

from __future__ import annotations

import copy
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from phased import PhasedLSTM, ops
from phased.learn import Batch, Model, Readout, Training, fit, make_fabric
from phased.learn import step as step_of
from phased.learn.batch import Samples
from phased.learn.feed import Part, shared
from phased.learn.loop import adam, train_once
from phased.learn.step import RecordedStep, Step, padded_steps, recordable
from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs.baselines import Baseline
from phased_lab.runs.run import records


class Replayed:
    """Stands for a CUDA graph on a CPU: recording a step runs it, and a replay runs it again on the same tensors."""

    replays = 0

    def replay(self):
        self.replays += 1
        self.again()


@pytest.fixture
def graphs(monkeypatch):
    """`RecordedStep` on a CPU; returns the graphs as they are recorded."""
    made = []
    run = RecordedStep._record

    def record(self, share):
        recorded = run(self, share)

        def again():
            before = [parameter.grad for parameter, _ in recorded.gradients]
            recorded.losses.copy_(Step.__call__(self, share))
            for (parameter, gradient), kept in zip(recorded.gradients, before, strict=True):
                if gradient is not None:
                    gradient.copy_(parameter.grad)
                parameter.grad = kept  # a replay does not touch what Python refers to

        recorded.graph.again = again
        made.append(recorded.graph)
        return recorded

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **_: nullcontext())
    monkeypatch.setattr(RecordedStep, "_record", record)
    monkeypatch.setattr(step_of, "WARM_UP", 2)
    return made


def steps(kind, device="cpu", dropout=0.0, units=8, network=Readout, **settings):
    """A small network on waves, and its training step."""
    fabric, training = make_fabric(device), Training(batch=4, rate=1e-2, **settings)
    torch.manual_seed(0)
    model = network(PhasedLSTM(1, units, ratio_on=0.3, learn_ratio_on=True), classes=2, dropout=dropout)
    optimizer = adam(list(model.parameters()), training.rate, fabric.device)
    return kind(model, optimizer, training, fabric), model


def batches(fabric, count=12, sizes=(4,)):
    """Batches on the device."""
    task = Sines(condition="asynchronous", points=(10, 60))
    return [shared(task.batch(0, "train", 1, i, sizes[i % len(sizes)]), fabric) for i in range(count)]


def trained(kind, device="cpu", sizes=(4,), **settings):
    """Losses of single steps, the parameters after them, and the number of sizes that were recorded."""
    step, model = steps(kind, device, **settings)
    torch.manual_seed(1)
    losses = [train_once(step, iter([share])) for share in batches(step.fabric, sizes=sizes)]
    recorded = sum(graph is not None for _, graph in step._sizes.values()) if isinstance(step, RecordedStep) else 0
    return losses, [parameter.detach().cpu().clone() for parameter in model.parameters()], recorded


@pytest.mark.parametrize("settings", [{}, {"openness_cost": 0.1}, {"schedule": "one-cycle"}, {"smoothing": 0.1}])
def test_replayed_steps_train_as_others_do(graphs, settings):
    losses, parameters, _ = trained(Step, **settings)
    replayed, others, recorded = trained(RecordedStep, **settings)
    assert recorded
    assert sum(graph.replays for graph in graphs) >= 6
    torch.testing.assert_close(replayed, losses, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(others, parameters, rtol=1e-4, atol=1e-6)


def test_a_size_is_recorded_at_its_second_batch_after_the_warm_up(graphs):
    step, _ = steps(RecordedStep)
    (share,) = batches(step.fabric, 1)
    for expected in (0, 0, 1, 2, 3):
        train_once(step, iter([share]))
        assert sum(graph.replays for graph in graphs) == expected
    assert len(graphs) == 1
    smaller = batches(step.fabric, 1, sizes=(3,))  # the last batch of an epoch
    train_once(step, iter(smaller))
    assert len(graphs) == 1
    train_once(step, iter(smaller))
    assert len(graphs) == 2


@pytest.mark.parametrize(
    "cause, cure",
    [
        (torch.OutOfMemoryError("out of memory\nmore"), r"smaller batches, or recorded=False\. \(out of memory\)"),
        (RuntimeError("not permitted\nmore"), r"may not read values.*recorded=False\. \(not permitted\)"),
    ],
)
@pytest.mark.parametrize("ends_with_another", [False, True])
def test_a_recording_that_fails_says_why(graphs, monkeypatch, cause, cure, ends_with_another):
    @contextmanager
    def failing(graph, **_):
        try:
            yield
        finally:
            if ends_with_another:  # as CUDA does
                raise RuntimeError("capture failed due to a previous error")

    def fail(opaque):
        raise cause

    monkeypatch.setattr(torch.cuda, "graph", failing)
    step, _ = steps(RecordedStep)
    (share,) = batches(step.fabric, 1)
    for _ in range(2):
        step(share)
    step.module = fail
    with pytest.raises(RuntimeError, match=rf"cannot be recorded as a CUDA graph: .*{cure}"):
        step(share)


def test_only_the_graphs_of_the_last_sizes_are_kept(graphs, monkeypatch):
    monkeypatch.setattr(step_of, "SIZES", 2)
    step, _ = steps(RecordedStep)
    for size in (1, 2, 3):
        (share,) = batches(step.fabric, 1, sizes=(size,))
        for _ in range(4):
            train_once(step, iter([share]))
    assert [key[-1] for key in step._sizes] == [2, 3]


def test_a_parameter_without_a_gradient_keeps_none_of_an_earlier_step(graphs):
    class Sometimes(Readout):
        """Has a bias that acts in batches of four sequences alone."""

        def forward(self, batch):
            self.linear.bias.requires_grad_(batch.size == 4)
            return super().forward(batch)

    step, model = steps(RecordedStep, network=Sometimes)
    four, three = batches(step.fabric, 2, sizes=(4, 3))
    for _ in range(4):
        step(four)
        assert model.linear.bias.grad is not None
        step(three)
        assert model.linear.bias.grad is None
    assert len(graphs) == 2


def test_padding_from_an_earlier_batch_changes_nothing(graphs):
    step, model = steps(RecordedStep)
    (whole,) = batches(step.fabric, 1)
    for _ in range(4):
        train_once(step, iter([whole]))
    (x, time, lengths), end = whole.batch.samples, len(whole.batch.samples.x) - 2
    shorter = Part(Batch.of(x[:end], time[:end], lengths.clamp(max=end), whole.batch.y), 4, 4)
    before = copy.deepcopy(model)
    loss = step(shorter).item()
    ((kept, _),) = step._sizes.values()
    assert padded_steps(len(x)) == padded_steps(end) == len(kept.batch.samples.x)
    assert not kept.batch.samples.x[end:].any()
    assert not kept.batch.samples.time[end:].any()
    plain, other = steps(Step)
    other.load_state_dict(before.state_dict())
    assert loss == pytest.approx(plain(shorter).item(), rel=1e-6)
    gradients = ([parameter.grad for parameter in each.parameters()] for each in (model, other))
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 125, 128, 129, 1000, 1024, 5000])
def test_sizes_are_few_and_near(steps):
    padded = padded_steps(steps)
    assert steps <= padded <= max(1.25 * steps, steps + 16)
    assert padded_steps(padded) == padded
    assert len({padded_steps(n) for n in range(1, 1025)}) < step_of.SIZES


def test_batches_with_a_mask_and_large_ones_run_as_usual(graphs, monkeypatch):
    step, model = steps(RecordedStep)
    (share,) = batches(step.fabric, 1)
    (x, time, lengths), y = share.batch.samples, share.batch.y
    mask = torch.arange(len(x)).unsqueeze(1) < lengths
    masked = Batch.of(x, time, lengths, mask.long(), mask)
    monkeypatch.setattr(step_of, "ROWS", time.numel() - 1)
    for _ in range(5):
        step(share)
    model.every_step = True
    monkeypatch.setattr(step_of, "ROWS", 10**9)
    for _ in range(5):
        step(Part(masked, masked.labels, masked.labels))
    assert not graphs
    two = Batch({"a": share.batch.samples, "b": Samples(torch.zeros(9, 4, 1), torch.zeros(9, 4), lengths)}, y)
    assert recordable(two)
    monkeypatch.setattr(step_of, "ROWS", 9 * 4)
    assert not recordable(two)


@pytest.mark.parametrize(
    "rnn, options, missing, recordable",
    [
        (PhasedLSTM(1, 2), {}, None, True),
        (PhasedLSTM(1, 2), {"encoder": torch.nn.Embedding(3, 1), "encode_padding": True}, None, True),
        (PhasedLSTM(1, 2), {"encoder": torch.nn.Embedding(3, 1)}, None, False),  # indexes the samples by the lengths
        (Baseline(1, 2), {}, None, True),
        (Baseline(1, 2, "input"), {}, None, False),
        (PhasedLSTM(1, 2, backend="eager"), {}, None, False),  # plain PyTorch
        (PhasedLSTM(1, 2, backend="reference"), {}, None, False),
        (PhasedLSTM(1, 2), {}, "no cuda-core", False),
    ],
)
def test_which_networks_may_be_recorded(rnn, options, missing, recordable, monkeypatch):
    backends = [replace(each, missing=lambda device=None: missing) if each.graphs else each for each in ops.BACKENDS]
    monkeypatch.setattr(ops, "BACKENDS", tuple(backends))
    assert Readout(rnn, 2, **options).recordable == recordable


def a_fabric(device, precision="32-true", processes=1):
    strategy = SimpleNamespace(precision=SimpleNamespace(precision=precision))
    return SimpleNamespace(
        device=torch.device(device), world_size=processes, global_rank=0, is_global_zero=True, strategy=strategy
    )


@pytest.mark.parametrize(
    "fabric, needed",
    [
        (a_fabric("cuda"), None),
        (a_fabric("cuda", "16-mixed"), r"training in full precision, got '16-mixed'. Use recorded=False"),
        (a_fabric("cuda", processes=2), r"one GPU, got 2 processes. Use recorded=False"),
        (a_fabric("cpu"), r"one GPU, got cpu. Use recorded=False"),
    ],
)
def test_a_training_is_recorded_on_one_gpu_in_full_precision(tmp_path, fabric, needed):
    model = Readout(PhasedLSTM(1, 4), classes=2)
    assert records(SimpleNamespace(recordable=True), fabric) == (needed is None)
    assert not any(records(model, fabric) for model in (SimpleNamespace(recordable=False), Model()))
    if needed is not None:
        with pytest.raises(ValueError, match=f"recorded=True needs {needed}"):
            fit(Sines(), model, Training(epochs=1), tmp_path, fabric, recorded=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("sizes", [(4,), (4, 3)])
def test_recorded_steps_have_the_bits_of_others_on_a_gpu(sizes, dropout, monkeypatch):
    monkeypatch.setattr(step_of, "WARM_UP", 2)
    never = type("Never", (RecordedStep,), {"_record": lambda self, share: None})  # padded in the same way, never replayed
    losses, parameters, _ = trained(never, "cuda", sizes, dropout=dropout)
    replayed, others, recorded = trained(RecordedStep, "cuda", sizes, dropout=dropout)
    assert recorded >= len(sizes)  # numbers of steps differ too
    assert losses == replayed
    for one, other in zip(parameters, others, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("units", [8, 130])
@pytest.mark.parametrize("settings", [{}, {"openness_cost": 0.1}, {"schedule": "one-cycle", "average": 0.9}])
def test_recorded_steps_train_as_others_do_on_a_gpu(units, settings, monkeypatch):
    monkeypatch.setattr(step_of, "WARM_UP", 2)
    losses, parameters, _ = trained(Step, "cuda", units=units, **settings)
    replayed, others, recorded = trained(RecordedStep, "cuda", units=units, **settings)
    assert recorded
    torch.testing.assert_close(replayed, losses, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(others, parameters, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
def test_a_recorded_training_that_was_interrupted_continues_with_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(step_of, "WARM_UP", 3)
    training = Training(epochs=3, train=40, test=8, batch=8)

    def curve(folder, epochs):
        torch.manual_seed(0)
        model = Readout(PhasedLSTM(2, 16), classes=None)
        done = fit(Adding(), model, replace(training, epochs=epochs), folder, make_fabric("cuda"), recorded=True)
        return [(epoch.loss, epoch.test) for epoch in done.curve]

    whole = curve(tmp_path / "whole", 3)
    curve(tmp_path / "parts", 1)
    assert curve(tmp_path / "parts", 3) == whole


@pytest.mark.gpu
def test_a_step_that_reads_values_cannot_be_recorded_and_says_so(monkeypatch):
    monkeypatch.setattr(step_of, "WARM_UP", 0)

    class Reader(Readout):
        def forward(self, batch):
            answer = super().forward(batch)
            return answer * float(answer.sum() != 0)

    step, _ = steps(RecordedStep, "cuda", network=Reader)
    (share,) = batches(step.fabric, 1)
    train_once(step, iter([share]))
    with pytest.raises(RuntimeError, match=r"cannot be recorded as a CUDA graph.*Use recorded=False"):
        train_once(step, iter([share]))
    assert torch.isfinite(torch.ones(3, device="cuda").sum())  # the GPU is still usable
    torch.manual_seed(0)
    drawn = torch.randn(3, device="cuda")  # and its random numbers, which the recording has used
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.randn(3, device="cuda"))
