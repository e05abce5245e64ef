"""What benchmarks measure is what they say: timings, data, networks and their peers. No test asserts a speed."""

import shutil
import subprocess
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from digits import write_data
from phased.estimator import Events
from phased.ops.cpu import passes
from phased.ops.native import MISSING
from phased_lab.bench import measure, nmnist, peers, reading, stream, training, work
from phased_lab.bench.work import TERMS, Work, steps

needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def test_a_timing_is_a_median_between_quartiles():
    timing = measure.Timing.of([3.0, 1.0, 2.0, 4.0, 100.0])
    assert timing.low <= timing.median == 3.0 <= timing.high
    assert timing.per(2).median == 1.5
    assert measure.Timing.of([1.0, 9.0]) == (5.0, 3.0, 7.0), "quartiles of a few measurements are between them"


@pytest.mark.parametrize(
    "more, calls, medians",
    [
        ({}, [*"aaaa", *"bb"], (0.02, 0.3)),  # one call that is not timed, then calls for 0.05 s
        ({"long": True}, ["a", "b"], (9.0, 9.0)),
        ({"sync": "s"}, ["a", "s", *"aaa", "s", "b", "s", "b", "s"], (0.02, 0.3)),
    ],
    ids=str,
)
def test_contestants_take_turns(monkeypatch, more, calls, medians):
    clock, made = [0.0], []

    def call(name, seconds, first):
        """A contestant that is slower in its first call of a turn; what synchronises takes no time."""

        def run():
            earlier = [each for each in made if each != "s"]
            clock[0] += seconds if earlier and earlier[-1] == name else first
            made.append(name)

        return run

    sync = call("s", 0.0, 0.0) if "sync" in more else None
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])
    contestants = {"a": call("a", 0.02, 9.0), "b": call("b", 0.3, 9.0)}
    timings = measure.compare(contestants, 2, **(more | {"sync": sync}))
    assert made == calls * 2
    assert tuple(timing.median for timing in timings.values()) == pytest.approx(medians)


def test_a_step_that_is_waited_for_is_followed_by_the_gpu(monkeypatch):
    made = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: made.append("s"))
    monkeypatch.setattr(work, "steps", lambda *_: {"a": lambda: made.append("a")})
    monkeypatch.setattr(measure, "TURN", 0.0)
    for alone in (False, True):
        work.timed(Work(1, 1, 1, 1), 1, "a", device="cuda", alone=alone)
    assert "".join(made) == "aaa" + "a" + "sas" + "aaa" + "as" + "sass"


def test_a_record_has_the_commit_of_the_source(monkeypatch):
    monkeypatch.setenv("PHASED_COMMIT", "of a copy")
    assert measure.machine()["commit"] == "of a copy"
    monkeypatch.delenv("PHASED_COMMIT")
    answers = {"log": "c0ffee\n", "status": ""}
    monkeypatch.setattr(subprocess, "run", lambda words, **_: Mock(stdout=answers[words[3]]))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert measure.commit() == "c0ffee"
    answers["status"] = " M cell.py\n"
    assert measure.commit() == "c0ffee-dirty"
    answers["log"] = ""
    assert measure.commit() is None, "no checkout"


def test_a_record_has_the_command_without_folders_of_this_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["phased", "bench", "cpu", "--json", "/a/b/cpu.json", "--data=/a/data", "--out", "results/c"])
    assert measure.machine()["command"] == "phased bench cpu --json cpu.json --data=data --out results/c"


@needs_core
def test_a_training_step_gives_every_parameter_a_gradient_and_inference_none():
    work = Work(2, 40, 3, 5, ratio_on=0.5)
    for train in (True, False):
        for step in steps(work, ("leak 0", "nn.LSTM in float32"), train=train).values():
            step()
            learned = [p for p in step.rnn.parameters() if p.requires_grad]
            assert learned
            assert all((p.grad is not None and p.grad.abs().sum() > 0) == train for p in learned)


def test_products_have_the_precision_of_their_name_and_half_precision_is_half():
    with TERMS["TF32"]():
        assert torch.backends.cuda.matmul.fp32_precision == torch.backends.cudnn.rnn.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"
    (half,) = steps(Work(1, 2, 1, 2), ["nn.LSTM in float16"]).values()
    assert {half.inputs[0].dtype, half.gradient.dtype, *(p.dtype for p in half.rnn.parameters())} == {torch.float16}
    (loop,) = steps(Work(1, 2, 1, 2), ["reference loop"]).values()
    assert (loop.rnn.backend, loop.rnn.leak) == ("reference", 1e-3)


@needs_core
def test_the_dense_path_changes_no_result_and_the_stream_with_every_unit_open_is_an_lstm(monkeypatch):
    work = Work(2, 40, 3, 5, ratio_on=0.5)
    (x, time, _), layer = work.data(), work.layer(0.0)
    sparse = layer(x, time)[0]
    monkeypatch.setattr(passes, "BREAK_EVEN", -1.0)
    torch.testing.assert_close(sparse, layer(x, time)[0])
    layer = stream.layer(6, 1.0, "square")
    x, t = (torch.from_numpy(values) for values in stream.events(20))
    lstm = torch.nn.LSTM(stream.FEATURES, 6)
    lstm.load_state_dict({name: value for name, value in layer.state_dict().items() if name in lstm.state_dict()})
    torch.testing.assert_close(layer(x, t)[0], lstm(x)[0])


def test_a_step_of_a_task_is_that_of_its_run_with_and_without_a_leak_and_the_plain_loop_is_the_reference(monkeypatch):
    run, built = training.run_of("superimposed"), []
    monkeypatch.setattr(training, "Contestant", lambda model, *rest: Mock(on=lambda batches, warm_up: built.append(model.rnn)))
    networks = training.variants(run, 0.4)
    for network in networks.values():
        training.training(run, network, count=1)
    leaks = {"leak 0, r_on 0.05": 0.0, "leak 0, r_on 0.4": 0.0, "leak 0.001": 1e-3, "nn.LSTM": None}
    assert dict(zip(networks, [getattr(rnn, "leak", None) for rnn in built], strict=True)) == leaks
    training.training(run, run.network, count=1, plain=True)
    assert [getattr(rnn, "backend", "") == "reference" for rnn in built] == [False] * 4 + [True]
    assert all(training.run_of(task).network.leak == 1e-3 for task in training.RUNS)


def test_the_made_up_recording_is_like_those_of_nmnist_and_always_the_same():
    events = nmnist.recording()
    assert len(events) == 4100
    assert 290_000 < events.time[-1] <= 307_000
    assert (np.diff(events.time) >= 0).all()
    assert (np.histogram(events.time, bins=[0, 102_000, 205_000, 307_001])[0] > 1200).all()  # in each burst
    assert np.array_equal(nmnist.recording().address, events.address)


def test_the_lstms_that_are_measured_compute_what_the_bn_lstm_computes():
    model, baseline = nmnist.networks()
    events = nmnist.recording(50)
    rows = nmnist.features(model, baseline, events)
    time = torch.from_numpy(events.time / 1000).unsqueeze(1)
    want = baseline(rows[:, :-1].unsqueeze(1), time, torch.tensor([50]))[1][0, 0]
    lstm = peers.folded(baseline)
    torch.testing.assert_close(lstm(rows)[1][0][0], want)
    for run in peers.by_onnx(lstm, rows).values():
        for _ in range(2):  # each call starts from a state of zeros
            torch.testing.assert_close(torch.from_numpy(run()), want, atol=1e-5, rtol=1e-4)


def test_a_warm_up_is_a_few_batches_and_an_epoch_is_all_of_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PHASED_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(training, "BEFORE", 1)
    trained = []
    monkeypatch.setattr(training, "train_once", lambda step, shares, *_: trained.append([share.batch.size for share in shares]))
    monkeypatch.setattr(training, "DIGITS", training.DIGITS.vary(training={"batch": 4}))
    training.epochs_of(training.DIGITS.network, replace(training.DIGITS.task, images=(10, 1)))()
    assert trained == [[4], [4, 4, 2]]


def test_the_table_that_is_read_has_every_measurement_once_in_no_order():
    table = reading.frame(4440)
    assert table["id"].n_unique() == 10
    assert not table["id"].is_sorted()
    events = Events.read(table, unit="h")
    assert (len(events), len(events.variables), len(events.value)) == (10, reading.VARIABLES, 4440)
