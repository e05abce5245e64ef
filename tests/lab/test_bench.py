"""The benchmarks run on small problems and report what they measured; no test asserts a speed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from digits import write_data
from phased import ops
from phased.cli.app import app
from phased.ops.core import MISSING
from phased.ops.cpu import passes
from phased_lab.bench import cpu, cuda, epoch, lipreading, measure, nmnist, onnx, stream, tables, tasks
from phased_lab.paper.frequency.task import Sines
from phased_lab.report.drawing.speedup import save_speedup
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.sweep import runs_of

needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def test_a_timing_is_a_median_between_quartiles():
    timing = measure.Timing.of([3.0, 1.0, 2.0, 4.0, 100.0])
    assert timing.low <= timing.median == 3.0 <= timing.high


def test_contestants_take_turns_and_the_first_call_of_a_turn_does_not_count(monkeypatch):
    clock, calls = [0.0], []

    def call(name, seconds, first):
        """A contestant that is slower in its first turn."""

        def run():
            clock[0] += first if not calls or calls[-1] != name else seconds
            calls.append(name)

        return run

    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])
    timings = measure.compare({"a": call("a", 0.02, 9.0), "b": call("b", 0.3, 9.0)}, rounds=2)
    assert calls == [*"aaaa", *"bb"] * 2
    assert timings["a"].median == pytest.approx(0.02)
    assert timings["b"].high == pytest.approx(0.3)


@needs_core
def test_a_training_step_gives_every_parameter_a_gradient():
    work = cpu.Work(2, 40, 3, 5, ratio_on=0.5)
    x, time, gradient = work.data()
    layer = work.layer(0.0)
    cpu.train(layer, gradient, x, time)()
    learned = [p for p in layer.parameters() if p.requires_grad]
    assert learned
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in learned)


@needs_core
def test_forcing_the_dense_path_changes_the_way_and_not_the_result():
    work = cpu.Work(2, 40, 3, 5, ratio_on=0.5)
    x, time, _ = work.data()
    layer = work.layer(0.0)
    before = passes.BREAK_EVEN
    sparse = layer(x, time)[0]
    try:
        passes.BREAK_EVEN = -1.0
        dense = layer(x, time)[0]
    finally:
        passes.BREAK_EVEN = before
    torch.testing.assert_close(sparse, dense)


@needs_core
def test_the_stream_with_every_unit_open_is_an_lstm():
    layer = stream.layer(6, 1.0, "square")
    x, t = (torch.from_numpy(values) for values in stream.events(20))
    lstm = torch.nn.LSTM(stream.FEATURES, 6)
    lstm.load_state_dict({name: value for name, value in layer.state_dict().items() if name in lstm.state_dict()})
    torch.testing.assert_close(layer(x, t)[0], lstm(x)[0])


def test_a_record_has_the_command_without_folders_of_this_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["phased", "bench", "cpu", "--json", "/a/b/cpu.json", "--data=/a/data", "--out", "results/c"])
    assert measure.machine()["command"] == "phased bench cpu --json cpu.json --data=data --out results/c"


@needs_core
def test_the_command_writes_what_it_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "TABLE", (cpu.Work(2, 1000, 1, 4), cpu.Work(2, 1200, 1, 4)))
    file = tmp_path / "made" / "cpu.json"
    result = CliRunner().invoke(app, ["bench", "cpu", "--quick", "--json", str(file)])
    assert result.exit_code == 0, result.output
    measured = json.loads(file.read_text())
    assert [row["work"]["T"] for row in measured["train"]] == [1000, 1200]
    assert measured["machine"]["torch"] == torch.__version__
    assert all(row["sparse"]["median"] > 0 and row["nn.LSTM"]["median"] > 0 for row in measured["train"])


def test_the_tasks_are_measured_with_every_network_and_a_plain_loop(tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    small = replace(tasks.FIGURES[2], task=Sines(points=(3, 5)), network=NetworkConfig(units=4), epochs=2)
    monkeypatch.setattr(tasks, "FIGURES", (small,) * 3)
    file = tmp_path / "tasks.json"
    result = CliRunner().invoke(app, ["bench", "tasks", "--quick", "--json", str(file)])
    assert result.exit_code == 0, result.output
    (measured,) = json.loads(file.read_text())["tasks"]
    assert measured["steps"] == 2 * 157
    assert list(measured["step"]) == ["leak 0, r_on 0.05", "leak 0, r_on 0.25", "leak 0.001", "nn.LSTM", "plain loop"]
    assert all(timing["median"] > 0 for timing in measured["step"].values())


def test_the_plain_loop_is_the_reference_and_the_others_are_not():
    loops = {who.name: tasks.build(tasks.FIGURES[2], who).rnn for who in tasks.contestants(tasks.FIGURES[2])}
    assert [name for name, rnn in loops.items() if getattr(rnn, "backend", "") == "reference"] == ["plain loop"]
    assert {name for name, rnn in loops.items() if getattr(rnn, "leak", 1) == 0} == {"leak 0, r_on 0.05", "leak 0, r_on 0.25"}


def test_what_is_measured_is_what_the_experiments_train():
    runs = {run.condition: run for run in runs_of("frequency", "paper", [0])}
    runs |= {run.condition: run for name in ("superimposed", "adding") for run in runs_of(name, "paper", [0])}
    names = ("standard", "high", "asynchronous", "superimposed", "exp(6,8)")
    for figure, name in zip(tasks.FIGURES, names, strict=True):
        run = runs[name]
        assert (figure.task, figure.epochs) == (run.task, run.training.epochs)
        assert (figure.network.units, figure.network.ratio_on) == (run.network.units, run.network.ratio_on)
        assert figure.steps == run.training.epochs * -(-run.training.train // run.training.batch)
    assert tasks.FIGURES[-1].network.period == runs["exp(6,8)"].network.period


def test_the_made_up_recording_is_like_those_of_nmnist_and_always_the_same():
    events = nmnist.recording()
    assert len(events) == 4100
    assert 290_000 < events.time[-1] <= 307_000
    assert (np.diff(events.time) >= 0).all()
    per_burst = np.histogram(events.time, bins=[0, 102_000, 205_000, 307_001])[0]
    assert (per_burst > 1200).all()
    assert np.array_equal(nmnist.recording().address, events.address)


def test_the_lstm_that_is_measured_computes_what_the_bn_lstm_computes():
    model, baseline = nmnist.networks()
    events = nmnist.recording(50)
    rows = nmnist.features(model, baseline, events)
    time = torch.from_numpy(events.time / 1000).unsqueeze(1)
    want = baseline(rows[:, :-1].unsqueeze(1), time, torch.tensor([50]))[1][0, 0]
    lstm = nmnist.folded(baseline)
    torch.testing.assert_close(lstm(rows)[1][0][0], want)
    pytest.importorskip("onnxruntime")
    state = {name: value.numpy() for name, value in lstm.state_dict().items()}
    session = onnx.lstm_step(state["weight_ih_l0"], state["weight_hh_l0"], state["bias_ih_l0"] + state["bias_hh_l0"])
    by_onnx = onnx.steps(session, rows.numpy(), nmnist.UNITS)()
    torch.testing.assert_close(torch.from_numpy(by_onnx), want, atol=1e-5, rtol=1e-4)
    in_bound_memory = onnx.bound_steps(session, rows.numpy(), nmnist.UNITS)
    for _ in range(2):  # each call starts from a state of zeros
        np.testing.assert_allclose(in_bound_memory(), by_onnx, rtol=1e-5, atol=1e-6)


@needs_core
def test_the_classifier_is_measured_against_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(nmnist, "recording", lambda events=40, make=nmnist.recording: make(events))
    file = tmp_path / "nmnist.json"
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "nmnist", "--quick", "--json", str(file)])
    assert result.exit_code == 0, result.output
    measured = json.loads(file.read_text())
    assert measured["events"] == 40
    names = ["Classifier, whole recording", "Stream.push", "nn.LSTM, whole recording", "nn.LSTMCell, step"]
    assert list(measured["event"])[:4] == names
    assert all(timing["median"] > 0 for timing in measured["event"].values())
    table = tables.nmnist(measured)
    assert all(name in table for name in measured["event"])


def test_an_unknown_benchmark_is_answered_with_those_there_are():
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "gpu"])
    assert result.exit_code == 2
    assert "cpu, cuda, stream, tasks, nmnist, epoch" in result.output


def test_a_report_of_a_folder_that_is_not_there_says_how_to_make_it(tmp_path):
    nowhere = tmp_path / "nowhere"
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["report", "--results", str(nowhere), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert str(nowhere) in result.output
    assert "phased run" in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_benchmark_says_what_it_needs():
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "cuda"])
    assert result.exit_code == 1
    assert "torch sees no CUDA device. Run on a machine with an NVIDIA GPU" in result.output


@pytest.fixture
def a_measured_gpu(monkeypatch):
    """A GPU on which every measurement takes a number of milliseconds that says what it is of."""

    class Present:
        missing = staticmethod(lambda: None)

    def timings(**milliseconds):
        return {
            name.replace("_", " ").replace("nn ", "nn."): measure.Timing(*[1e-3 * ms] * 3) for name, ms in milliseconds.items()
        }

    both = timings(ours=1, nn_LSTM=2)
    monkeypatch.setattr(ops, "backends", lambda: {"cuda": Present})
    monkeypatch.setattr(cuda, "gpu", lambda: {"gpu": "a GPU"})
    for name in ("training", "inference"):
        monkeypatch.setattr(cuda, name, lambda *_, **more: both)
    monkeypatch.setattr(cuda, "kernel_times", lambda work, leak, low=False: {"forward": 0.4e-3 if low else 0.5e-3})
    monkeypatch.setattr(cuda, "precision", lambda *_: both | timings(ours_TF32=3, nn_LSTM_TF32=4))
    monkeypatch.setattr(cuda, "half", lambda *_: timings(ours=1, ours_bfloat16=5, nn_LSTM_float16=6))
    monkeypatch.setattr(cuda, "peak_memory", lambda work, model: 1e6 * len(model))
    each = [(work, leak, both | timings(nn_LSTM_float32=7)) for work in cuda.GRID for leak in (0.0, 1e-3)]
    monkeypatch.setattr(cuda, "grid", lambda rounds: each)
    monkeypatch.setattr(cuda, "longest", lambda: [(work, 1e-3, 1e6) for work in cuda.LONGEST])


@pytest.mark.usefixtures("a_measured_gpu")
def test_the_benchmark_of_a_gpu_writes_all_that_tables_and_picture_need(tmp_path):
    file = tmp_path / "cuda.json"
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "cuda", "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["cuda.json"]  # without cuda.json.part
    measured = json.loads(file.read_text())
    assert [row["gpu"] for row in measured["half"]] == [{"ours": 0.5e-3, "ours bfloat16": 0.4e-3}] * len(cuda.HALF)
    shown = tables.cuda(measured)
    assert "| 5.00 ms | 0.40 ms | 6.0 ms | 1.2x |" in shown
    assert "both in TF32 | 3.0 ms | | 4.0 ms | 1.3x |" in shown
    assert [path.name for path in save_speedup(measured, tmp_path)] == ["speedup.png", "speedup.svg"]


@pytest.mark.usefixtures("a_measured_gpu")
def test_a_benchmark_that_is_stopped_keeps_its_finished_tables(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cuda, "precision", stop)
    file = tmp_path / "cuda.json"
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "cuda", "--quick", "--json", str(file)])
    assert result.exit_code != 0
    assert not file.exists()
    kept = json.loads((tmp_path / "cuda.json.part").read_text())
    assert list(kept) == ["machine", "rounds", "train", "leak"]
    assert len(kept["leak"]) == len(cuda.LEAKY)


def test_an_epoch_of_every_network_is_measured_on_the_same_recordings(monkeypatch, tmp_path):
    monkeypatch.setenv("PHASED_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(epoch, "PAPER", replace(epoch.PAPER, training=replace(epoch.PAPER.training, batch=4)))
    timings = epoch.measure(8, 2, "cpu")
    assert list(timings) == ["Phased LSTM", "Phased LSTM, recordings changed", "nn.LSTM", "BN-LSTM"]
    assert all(0 < timing.low <= timing.median <= timing.high for timing in timings.values())


def test_a_warm_up_is_a_few_batches_and_an_epoch_is_all_of_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PHASED_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(epoch, "WARM_UP", 1)
    trained = []

    def count(step, shares, *rest):
        trained.append([share.batch.size for share in shares])

    monkeypatch.setattr(epoch, "train_once", count)
    task = replace(epoch.PAPER.task, images=(10, 1))
    contestant = epoch.Contestant(epoch.PAPER.network, task, replace(epoch.PAPER.training, batch=4), "cpu")
    contestant.epoch()
    assert trained == [[4], [4, 4, 2]]


def test_lip_reading_is_measured_at_both_resolutions_with_its_updates(tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    small = replace(lipreading.PAPER.network, units=(3, 4, 5, 5))
    monkeypatch.setattr(lipreading, "PAPER", replace(lipreading.PAPER, network=small))
    monkeypatch.setattr(lipreading, "SECONDS", 1)
    file = tmp_path / "lipreading.json"
    result = CliRunner().invoke(app, ["bench", "lipreading", "--quick", "--json", str(file)])
    assert result.exit_code == 0, result.output
    measured = json.loads(file.read_text())
    found = {(row["resolution"], row["network"]): row for row in measured["networks"]}
    assert len(found) == 10
    assert all(row["step"]["median"] > 0 for row in found.values())
    assert found["high", "LSTM"]["updates"] == found["low", "BN-LSTM"]["updates"] == 1
    assert found["low", "Phased LSTM, r_on 1"]["updates"] == pytest.approx(1, abs=0.02)
    assert found["high", "Phased LSTM, r_on 1"]["updates"] < 0.95  # the layer of the video runs at its frames
    assert found["high", "Phased LSTM, r_on 0.05"]["updates"] < 0.5
    assert "| low | LSTM |" in tables.lipreading(measured)
