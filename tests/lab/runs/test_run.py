"""Runs: a stable name, one line of JSON, and a network that can be loaded again."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import phased
from phased.learn.batch import Placeable
from phased.learn.loop import Trained, Training
from phased.learn.store import Epoch
from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs import catalogue
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run, describe, trained, write
from phased_lab.runs.sweep import recorded, runs_of
from training import SMALL, execute, tiny_run

SCALES = ["paper", "quick"]
STUDIES = catalogue.studies()


def finished(run: Run, out: Path) -> bool:
    """Whether a sweep would not run it again."""
    return run.name in recorded([run], out)


@pytest.mark.usefixtures("data_folder")
def test_no_two_runs_share_a_name_and_every_name_is_fit_for_a_file():
    runs = [run for name in STUDIES for scale in SCALES for run in runs_of(name, scale, range(3))]
    authors = {"periods": "authors"}
    runs += [
        run for name in ("frequency", "superimposed") for scale in SCALES for run in runs_of(name, scale, [0], options=authors)
    ]
    by_name: dict[str, Run] = {}
    for run in runs:
        assert by_name.setdefault(run.name, run).settings == run.settings
        assert all(letter.isalnum() or letter in "-." for letter in run.name)


def test_the_studies_are_those_of_the_papers_figures():
    figure = runs_of("frequency", "paper", range(5))
    assert len(figure) == 5 * 3 * (2 + 1 + 1)
    assert {run.network.leak for run in figure if run.network.model == "phased"} == {0.0, 1e-3}
    for run in figure:
        assert run.task == Sines(condition=run.condition)
        assert (run.network.units, run.network.period, run.network.ratio_on) == (110, (1.0, 3.0), 0.05)
        assert (run.training.epochs, run.training.train, run.training.test, run.training.batch) == (70, 5000, 500, 32)
    waves = runs_of("superimposed", "paper", [0])
    assert [(run.network.model, run.training.epochs) for run in waves] == [
        (name, 300) for name in ("phased", "phased", "bn-lstm", "lstm")
    ]
    assert {run.task for run in waves} == {Sines("asynchronous", waves=2)}
    adding = runs_of("adding", "paper", [0])
    assert [run.condition for run in adding[::2]] == ["exp(0,2)", "exp(2,4)", "exp(4,6)", "exp(6,8)"]
    for run in adding:
        assert run.condition == f"exp({run.network.period[0]:g},{run.network.period[1]:g})"
        assert (run.task, run.network.ratio_on, run.network.learn_ratio_on) == (Adding(), 0.05, False)


def test_a_result_is_one_line_that_says_everything(tmp_path):
    run = tiny_run()
    line = execute(run, tmp_path)
    text = run.file(tmp_path).read_text()
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


def test_settings_name_only_what_has_a_meaning_for_the_model():
    assert "leak" not in tiny_run(model="lstm").settings
    assert "normalise" not in tiny_run(model="lstm").settings
    assert tiny_run(model="bn-lstm").settings["normalise"] == "input"
    assert "time_unit" not in tiny_run().settings
    assert tiny_run().settings["period"] == "exp U(1, 3)"


def test_a_trained_network_can_be_had_back_and_its_gates_are_told_before_and_after(tmp_path):
    run = tiny_run()
    line = execute(run, tmp_path)
    model = trained(run, tmp_path)
    assert not model.training
    batches = [SMALL.batch(0, "test", 3, n, 8) for n in range(2)]
    assert sum(int((model(batch).argmax(-1) == batch.y).sum()) for batch in batches) / 16 == line["curve"][-1]["test"]
    (before,), (after,) = run.build().rnn.gates(), model.rnn.gates()
    for name in ("period", "shift", "ratio_on"):
        sides = {"before": getattr(before, name).tolist(), "after": getattr(after, name).tolist()}
        assert line["gates"][name] == sides
        assert sides["before"] != sides["after"]
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint of 'tiny-asynchronous-phased-leak0.5-seed0-quick'"):
        trained(tiny_run(leak=0.5), tmp_path)


# Settings that an older record does not have


def without(settings: dict[str, Any], *path: str) -> dict[str, Any]:
    """Settings without a key, or without one inside another."""
    key, *inner = path
    left = {name: value for name, value in settings.items() if name != key}
    return left | {key: without(settings[key], *inner)} if inner else left


def paths(settings: dict[str, Any]) -> list[tuple[str, ...]]:
    """Every key of the settings, and inside of them."""
    found: list[tuple[str, ...]] = []
    for key, value in settings.items():
        found += [(key,), *((key, *rest) for rest in paths(value))] if isinstance(value, dict) else [(key,)]
    return found


def record_with(run: Run, settings: dict[str, Any], out: Path) -> Record:
    """The record of a run as an older version might have written it."""
    made = describe(run, Trained([Epoch(1, 0.5, 0.5, 1.0, None)], 0), None, None, torch.device("cpu"))
    run.file(out).parent.mkdir(parents=True, exist_ok=True)
    write(run.file(out), replace(made, settings=settings))
    return made


USUAL = Run("tiny", "asynchronous", "quick", Sines(), NetworkConfig(), Training())
CHANGES = {
    ("leak",): replace(USUAL, network=replace(USUAL.network, leak=0.5)),
    ("units",): replace(USUAL, network=replace(USUAL.network, units=7)),
    ("period",): replace(USUAL, network=replace(USUAL.network, period=(0.0, 3.0))),
    ("rate",): replace(USUAL, training=replace(USUAL.training, rate=0.5)),
    ("seed",): replace(USUAL, training=replace(USUAL.training, seed=7)),
    ("task", "points"): replace(USUAL, task=replace(USUAL.task, points=(2, 3))),
    ("task", "periods"): replace(USUAL, task=replace(USUAL.task, periods="authors")),
}


@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
@pytest.mark.parametrize("task", [Sines(), Adding()])
def test_a_setting_that_is_new_does_not_make_an_older_record_one_of_other_settings(tmp_path, model, task):
    run = Run("tiny", "asynchronous", "quick", task, NetworkConfig(model), Training())
    gone = [path for path in paths(run.settings) if path not in {("model",), ("task",), ("task", "name")}]
    assert ("task", "length" if isinstance(task, Adding) else "points") in gone
    for path in gone:
        record_with(run, without(run.settings, *path), tmp_path)
        assert finished(run, tmp_path), path
    record_with(run, {"model": model, "task": {}}, tmp_path)
    assert finished(run, tmp_path)
    record_with(run, {}, tmp_path)
    assert finished(run, tmp_path)


@pytest.mark.parametrize("path, changed", CHANGES.items(), ids=[" ".join(path) for path in CHANGES])
def test_a_new_setting_with_another_value_than_its_default_is_another_setting(tmp_path, path, changed):
    changed = replace(changed, tag="same name")
    record_with(changed, without(changed.settings, *path), tmp_path)
    with pytest.raises(ValueError, match=f"with other settings: {re.escape('.'.join(path))} is .* there, .* here"):
        finished(changed, tmp_path)
    record_with(changed, changed.settings, tmp_path)
    assert finished(changed, tmp_path)


@pytest.mark.parametrize("other", [{"study": "another"}, {"variant": "another"}])
def test_the_record_of_another_study_or_variant_under_the_same_name_is_named(tmp_path, other):
    record_with(replace(USUAL, **other), USUAL.settings | {"of old": 3}, tmp_path)
    with pytest.raises(ValueError, match=f"with other settings: {next(iter(other))} is 'another' there"):
        finished(USUAL, tmp_path)
    record_with(USUAL, USUAL.settings | {"of old": 3}, tmp_path)
    assert finished(USUAL, tmp_path), "a setting that is no more makes no record one of other settings"


def test_a_name_is_fit_for_a_file_whatever_its_parts_are():
    run = replace(USUAL, condition="a b/../[red]", tag="<leak> 0")
    assert run.name == "tiny-a-b-..-red-phased-leak-0-seed0-quick"


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", STUDIES)
def test_every_run_is_finished_by_a_record_of_its_settings_which_says_where_it_belongs(name, tmp_path):
    assert not finished(runs_of(name, "paper", [3])[0], tmp_path)
    for run in runs_of(name, "paper", [3]):
        made = record_with(run, run.settings, tmp_path)
        assert finished(run, tmp_path)
        assert (made.study, made.variant, made.data) == (name, run.variant, run.data)
        assert made.command == f"phased run {name} --scale paper --seeds 4 --only {run.name}"
        assert [again.name for again in runs_of(name, "paper", [3], only=run.name)] == [run.name]


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("scale", SCALES)
def test_the_command_of_a_run_with_an_option_makes_it_again(scale):
    for name, study in STUDIES.items():
        for option, about in study.options.items():
            for value in about.values:
                for run in runs_of(name, scale, [0], options={option: value}):
                    words = run.command.split()
                    assert words[:3] == ["phased", "run", name]
                    given = dict(zip(words[3::2], words[4::2], strict=True))
                    spelled = {key: f"--{key.replace('_', '-')}" for key in study.options}
                    options = {key: given[word] for key, word in spelled.items() if word in given}
                    (again,) = runs_of(name, given["--scale"], range(int(given["--seeds"])), given["--only"], options)
                    assert again == run


def test_a_run_is_varied_in_its_own_fields_and_in_those_of_its_parts():
    run = USUAL.vary(tag="other", options={"a": "b"}, task=SMALL, network={"units": 7}, training={"rate": 0.5, "seed": 3})
    parts = {"network": replace(USUAL.network, units=7), "training": replace(USUAL.training, rate=0.5, seed=3)}
    assert run == replace(USUAL, tag="other", options={"a": "b"}, task=SMALL, **parts)
    assert USUAL.pick(paper=1, quick=2) == 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'unit'"):
        USUAL.vary(network={"unit": 7})


@pytest.mark.usefixtures("data_folder")
def test_every_network_of_every_experiment_can_be_built_and_sees_its_task():
    for name in STUDIES:
        for run in runs_of(name, "paper", [0]):
            if isinstance(run.task, Placeable):  # of data that is not here; tests of nmnist have a smaller one
                continue
            small = replace(run, network=replace(run.network, units=3), training=Training())
            batch = run.task.batch(0, "train", 1, 0, 2)
            assert len(small.build()(batch)) == 2
