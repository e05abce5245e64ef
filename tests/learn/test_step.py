"""Training steps that are recorded once and replayed: the numbers of steps as Python runs them."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from phased import PhasedLSTM
from phased.learn import Batch, Model, Readout, Training, fit, make_fabric
from phased.learn import step as step_of
from phased.learn.baselines import Baseline
from phased.learn.batch import Samples
from phased.learn.loop import adam, train_once
from phased.learn.share import Share, shared
from phased.learn.step import RecordedStep, Step, padded_steps, recordable
from phased.paper.adding.task import Adding
from phased.paper.frequency.task import Sines

pytest.importorskip("lightning")


class Replayed:
    """Stands for a CUDA graph on a CPU: recording a step runs it, and a replay runs it again on the same tensors."""

    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1
        self.again()


@pytest.fixture
def graphs(monkeypatch):
    """`RecordedStep` on a CPU; returns the graphs as they are recorded."""
    made = []
    run = RecordedStep._record

    class Recording:
        def __init__(self, graph, **_):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    def record(self, share):
        recorded = run(self, share)

        def again():
            recorded.losses.copy_(Step.__call__(self, share))
            for parameter, gradient in recorded.gradients:
                gradient.copy_(parameter.grad)

        recorded.graph.again = again
        made.append(recorded.graph)
        return recorded

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Replayed)
    monkeypatch.setattr(torch.cuda, "graph", Recording)
    monkeypatch.setattr(RecordedStep, "_record", record)
    monkeypatch.setattr(step_of, "WARM_UP", 2)
    return made


def steps(kind, device="cpu", dropout=0.0, **settings):
    """A small network on waves, and its training step."""
    fabric, training = make_fabric(device), Training(batch=4, rate=1e-2, **settings)
    torch.manual_seed(0)
    model = Readout(PhasedLSTM(1, 8, ratio_on=0.3, learn_ratio_on=True), classes=2, dropout=dropout)
    optimizer = adam(list(model.parameters()), training.rate, fabric.device)
    return kind.of(model, optimizer, training, fabric), model


def batches(fabric, count=12, task=None, sizes=(4,)):
    """Batches on the device."""
    task = task or Sines(condition="asynchronous", points=(10, 60))
    return [shared(task.batch(0, "train", 1, i, sizes[i % len(sizes)]), fabric) for i in range(count)]


def trained(kind, device="cpu", sizes=(4,), **settings):
    """Losses of single steps, and the parameters after them."""
    step, model = steps(kind, device, **settings)
    torch.manual_seed(1)
    losses = [train_once(step, iter([share])) for share in batches(step.fabric, sizes=sizes)]
    return losses, [parameter.detach().cpu().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("settings", [{}, {"openness_cost": 0.1}, {"schedule": "one-cycle"}, {"smoothing": 0.1}])
def test_replayed_steps_train_as_others_do(graphs, settings):
    losses, parameters = trained(Step, **settings)
    replayed, others = trained(RecordedStep, **settings)
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


def test_only_the_graphs_of_the_last_sizes_are_kept(graphs, monkeypatch):
    monkeypatch.setattr(step_of, "KEPT", 2)
    step, _ = steps(RecordedStep)
    for size in (1, 2, 3):
        (share,) = batches(step.fabric, 1, sizes=(size,))
        for _ in range(4):
            train_once(step, iter([share]))
    assert [key[-1] for key in step._sizes] == [2, 3]


def test_padding_from_an_earlier_batch_changes_nothing(graphs):
    step, model = steps(RecordedStep)
    whole, *_ = batches(step.fabric, 1)
    for _ in range(4):
        train_once(step, iter([whole]))
    (x, time, lengths), batch = whole.batch.samples, whole.batch
    shorter = Batch.of(x[:-2], time[:-2], lengths.clamp(max=len(x) - 2), batch.y)
    assert padded_steps(len(x)) == padded_steps(len(x) - 2)
    before = copy.deepcopy(model)
    loss = step(Share(shorter, 4, 4)).item()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    plain, other = steps(Step)
    other.load_state_dict(before.state_dict())
    assert loss == pytest.approx(plain(Share(shorter, 4, 4)).item(), rel=1e-6)
    torch.testing.assert_close(gradients, [parameter.grad for parameter in other.parameters()], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 125, 128, 129, 1000, 1024, 5000])
def test_sizes_are_few_and_near(steps):
    padded = padded_steps(steps)
    assert steps <= padded <= max(1.25 * steps, steps + 16)
    assert padded_steps(padded) == padded
    assert len({padded_steps(n) for n in range(1, 1025)}) < 48


def test_batches_with_a_mask_and_large_ones_run_as_usual(graphs):
    (share,) = batches(make_fabric("cpu"), 1)
    (x, time, lengths), labels = share.batch.samples, torch.zeros(share.batch.samples.time.shape, dtype=torch.int64)
    assert recordable(share.batch)
    assert not recordable(Batch.of(x, time, lengths, labels, torch.zeros(labels.shape, dtype=torch.bool)))
    many = step_of.ROWS // 4 + 1
    large = {"a": share.batch.samples, "b": Samples(torch.zeros(many, 4, 1), torch.zeros(many, 4), lengths)}
    assert not recordable(Batch(large, share.batch.y))


@pytest.mark.parametrize(
    "rnn, options, recordable",
    [
        (PhasedLSTM(1, 2), {}, True),
        (PhasedLSTM(1, 2), {"encoder": torch.nn.Embedding(3, 1), "encode_padding": True}, True),
        (PhasedLSTM(1, 2), {"encoder": torch.nn.Embedding(3, 1)}, False),  # indexes the samples by the lengths
        (Baseline(1, 2), {}, True),
        (Baseline(1, 2, "input"), {}, False),
    ],
)
def test_which_networks_may_be_recorded(rnn, options, recordable):
    assert Readout(rnn, 2, **options).recordable == recordable
    assert not Model().recordable


def test_a_training_on_a_cpu_cannot_be_recorded(tmp_path):
    model = Readout(PhasedLSTM(1, 4), classes=2)
    with pytest.raises(ValueError, match=r"recorded=True needs one GPU, got cpu. Use recorded=False"):
        fit(Sines(), model, Training(epochs=1), tmp_path, make_fabric("cpu"), recorded=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("sizes", [(4,), (4, 3)])
def test_recorded_steps_have_the_bits_of_others_on_a_gpu(sizes, dropout, monkeypatch):
    monkeypatch.setattr(step_of, "WARM_UP", 2)
    padded = RecordedStep
    never = type("Never", (RecordedStep,), {"_record": lambda self, share: None})  # padded in the same way, never replayed
    expected, got = (trained(kind, "cuda", sizes, dropout=dropout) for kind in (never, padded))
    assert expected[0] == got[0]
    for one, other in zip(expected[1], got[1], strict=True):
        assert torch.equal(one, other)


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

    fabric, training = make_fabric("cuda"), Training(batch=4)
    model = Reader(PhasedLSTM(1, 8), classes=2)
    step = RecordedStep.of(model, adam(list(model.parameters()), 1e-3, fabric.device), training, fabric)
    (share,) = batches(fabric, 1)
    train_once(step, iter([share]))
    with pytest.raises(RuntimeError, match=r"cannot be recorded as a CUDA graph.*Use recorded=False"):
        train_once(step, iter([share]))
    assert torch.isfinite(torch.ones(3, device="cuda").sum())  # the GPU is still usable
