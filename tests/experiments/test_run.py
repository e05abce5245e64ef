"""Runs: a stable name, one line of JSON, and a network that can be had back."""

import json
import math
from dataclasses import replace

import pytest
import torch

import phased
from phased.data.adding import Adding
from phased.data.sines import Sines
from phased.experiments import adding, frequency, superimposed
from phased.experiments.run import Run, finished, trained, write_line
from phased.experiments.sweep import EXPERIMENTS
from phased.report.results import parse
from phased.train import Settings
from training import SMALL, execute, tiny_run

SCALES = ["paper", "quick"]


def test_names_are_readable_and_stay_the_same():
    names = {run.name for name in EXPERIMENTS for scale in SCALES for run in EXPERIMENTS[name].runs(scale, [0])}
    assert {
        "frequency-asynchronous-phased-leak0.001-seed0",
        "frequency-high-phased-leak0-seed0",
        "frequency-standard-bn-lstm-seed0",
        "frequency-asynchronous-lstm-seed0-quick",
        "superimposed-superimposed-phased-leak0-seed0",
        "adding-exp6to8-phased-leak0.001-seed0",
        "frequency-asynchronous-phased-leak0-ratio0.05-seed0",
        "frequency-asynchronous-phased-leak0-price0.1-seed0",
        "frequency-standard-bn-lstm-term-seed0",
    } <= names


def test_no_two_runs_share_a_name_and_every_name_is_fit_for_a_file():
    runs = [run for name in EXPERIMENTS for scale in SCALES for run in EXPERIMENTS[name].runs(scale, range(3))]
    runs += [
        run for make in (frequency.runs, superimposed.runs) for scale in SCALES for run in make(scale, [0], periods="authors")
    ]
    by_name: dict[str, Run] = {}
    for run in runs:
        assert by_name.setdefault(run.name, run).settings == run.settings
        assert all(letter.isalnum() or letter in "-." for letter in run.name)


def test_figure_3_is_three_models_under_three_conditions_with_and_without_a_leak():
    runs = frequency.runs("paper", range(5))
    assert len(runs) == 5 * 3 * (2 + 1 + 1)
    assert {run.condition for run in runs} == {"standard", "high", "asynchronous"}
    assert {run.network.leak for run in runs if run.network.model == "phased"} == {0.0, 1e-3}
    for run in runs:
        assert run.task == Sines(condition=run.condition)
        assert (run.network.units, run.network.period, run.network.ratio_on) == (110, (1.0, 3.0), 0.05)
        assert run.network.learn_ratio_on
        assert (run.training.epochs, run.training.train, run.training.test, run.training.batch) == (70, 5000, 500, 32)
        assert (run.training.rate, run.training.clip) == (1e-3, 1.0)


def test_the_authors_periods_are_an_option_that_names_itself():
    (run, *_) = frequency.runs("paper", [0], periods="authors")
    assert run.task.periods == "authors"
    assert run.name == "frequency-standard-phased-leak0.001-authors-seed0"
    (two, *_) = superimposed.runs("paper", [0], periods="authors")
    assert two.task == Sines(waves=2, periods="authors", points=(100, 1000), duration=(1.0, 100.0))


def test_figure_4a_is_two_waves_at_random_times_for_300_epochs():
    runs = superimposed.runs("paper", [0])
    assert [run.network.model for run in runs] == ["phased", "phased", "bn-lstm", "lstm"]
    assert {run.task for run in runs} == {Sines("asynchronous", waves=2)}
    assert {run.training.epochs for run in runs} == {300}


def test_figure_4b_is_four_ranges_of_periods_with_a_fixed_open_ratio():
    runs = adding.runs("paper", [0])
    assert {run.condition for run in runs} == {"exp(0,2)", "exp(2,4)", "exp(4,6)", "exp(6,8)"}
    for run in runs:
        assert run.condition == f"exp({run.network.period[0]:g},{run.network.period[1]:g})"
        assert run.task == Adding()
        assert (run.network.ratio_on, run.network.learn_ratio_on) == (0.05, False)


def test_the_study_of_sparsity_has_fixed_ratios_and_prices_at_leak_0():
    runs = frequency.sparsity("paper", [0])
    assert {run.network.ratio_on for run in runs if not run.network.learn_ratio_on} == {0.05, 0.1, 0.2}
    assert all(run.training.openness_cost > 0 for run in runs if run.network.learn_ratio_on)
    assert {run.network.leak for run in runs} == {0.0}
    assert {run.condition for run in runs} == {"asynchronous"}


def test_a_result_is_one_line_that_says_everything(tmp_path):
    run = tiny_run()
    line = execute(run, tmp_path)
    text = run.result(tmp_path).read_text()
    assert text.count("\n") == 1
    assert json.loads(text) == line
    assert line["settings"] == run.settings
    assert {"leak", "ratio_on", "learn_ratio_on", "period", "epochs", "batch", "units", "rate", "clip"} <= line["settings"].keys()
    assert (line["name"], line["model"], line["condition"], line["seed"]) == (run.name, "phased", "asynchronous", 0)
    assert [epoch["epoch"] for epoch in line["curve"]] == [1, 2, 3]
    assert line["updates"] == line["curve"][-1]["updates"]
    assert line["wall"] == pytest.approx(math.fsum(epoch["seconds"] for epoch in line["curve"]))
    assert line["versions"]["phased"] == phased.__version__
    assert line["machine"]["device"] == "cpu"
    assert line["command"] == f"phased run tiny --scale quick --seeds 1 --only {run.name}"
    assert {file.name for file in tmp_path.glob("tiny/*")} == {run.name, f"{run.name}.jsonl"}


def test_the_report_reads_what_a_run_wrote(tmp_path):
    for model in ("phased", "lstm"):
        run = tiny_run(model=model)
        line = execute(run, tmp_path)
        result = parse(run.result(tmp_path).read_bytes())
        assert result.test == line["curve"][-1]["test"]
        assert (result.before is None) == (model == "lstm")


def test_gates_are_told_before_and_after(tmp_path):
    run = tiny_run(epochs=2)
    line = execute(run, tmp_path)
    (before,), (after,) = run.build().rnn.gates(), trained(run, tmp_path).rnn.gates()
    for name in ("period", "shift", "ratio_on"):
        assert line["gates"][name]["before"] == getattr(before, name).tolist()
        assert line["gates"][name]["after"] == getattr(after, name).tolist()
        assert line["gates"][name]["before"] != line["gates"][name]["after"]


def test_settings_name_only_what_has_a_meaning_for_the_model():
    assert "leak" not in tiny_run(model="lstm").settings
    assert "normalise" not in tiny_run(model="lstm").settings
    assert tiny_run(model="bn-lstm").settings["normalise"] == "input"
    assert "time_unit" not in tiny_run().settings
    assert tiny_run().settings["period"] == "exp U(1, 3)"


def test_a_trained_network_can_be_had_back(tmp_path):
    run = tiny_run()
    execute(run, tmp_path)
    model = trained(run, tmp_path)
    assert not model.training
    batch = SMALL.batch(0, "test", 3, 0, 8)
    rights = sum(
        int((model(SMALL.batch(0, "test", 3, n, 8)).argmax(-1) == SMALL.batch(0, "test", 3, n, 8).y).sum()) for n in range(2)
    )
    assert rights / 16 == json.loads(run.result(tmp_path).read_text())["curve"][-1]["test"]
    assert not torch.equal(model(batch), run.build().eval()(batch))
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint of 'tiny-asynchronous-phased-leak0.5-seed0-quick'"):
        trained(tiny_run(leak=0.5), tmp_path)


def test_a_run_is_finished_when_its_result_is_there_and_of_its_settings(tmp_path):
    run = tiny_run()
    assert not finished(run, tmp_path)
    execute(run, tmp_path)
    assert finished(run, tmp_path)
    other = replace(run, training=replace(run.training, rate=0.5))
    with pytest.raises(
        ValueError, match=r"is the result of other settings: rate is 0\.001 there, 0\.5 here\. Choose another folder"
    ):
        finished(other, tmp_path)


@pytest.mark.parametrize("text", ["", '{"settings": {"ra', "[1, 2]", '{"something": "else"}', "\x00"])
def test_a_file_in_the_place_of_a_result_is_not_overwritten(tmp_path, text):
    run = tiny_run()
    run.result(tmp_path).parent.mkdir(parents=True)
    run.result(tmp_path).write_text(text)
    with pytest.raises(ValueError, match=r"should hold the result of a run, but does not. Choose another folder, or move it"):
        finished(run, tmp_path)
    assert run.result(tmp_path).read_text() == text


def test_what_json_has_no_number_for_is_null(tmp_path):
    write_line(tmp_path / "line.jsonl", {"a": [1.0, math.nan], "b": {"c": -math.inf}})
    assert json.loads((tmp_path / "line.jsonl").read_text()) == {"a": [1.0, None], "b": {"c": None}}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_unknown_scale_is_answered_with_those_there_are(name):
    with pytest.raises(ValueError, match="scale must be one of 'paper', 'quick', got 'huge'"):
        EXPERIMENTS[name].runs("huge", [0])


def test_every_network_of_every_experiment_can_be_built_and_sees_its_task():
    for name in EXPERIMENTS:
        for run in EXPERIMENTS[name].runs("paper", [0]):
            small = replace(run, network=replace(run.network, units=3), training=Settings())
            batch = run.task.batch(0, "train", 1, 0, 2)
            assert len(small.build()(batch)) == 2
