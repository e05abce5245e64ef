"""Runs: a name, a place among other runs, a command that makes them again, and a network that can be had back."""

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
from phased_lab.runs import discovery
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import parse
from phased_lab.runs.run import Run, compare, describe, trained
from phased_lab.runs.sweep import runs_of
from training import SMALL, execute, tiny_run

STUDIES = discovery.studies()


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("scale", ["paper", "quick"])
def test_a_run_has_its_own_name_and_place_and_a_command_that_makes_it_again(scale):
    by_name: dict[str, dict] = {}
    for name, study in STUDIES.items():
        by_place: dict[tuple, dict] = {}
        for chosen in [{}] + [{option: value} for option, about in study.experiment.options.items() for value in about.values]:
            for run in runs_of(name, scale, (0, 3), options=chosen):
                assert re.fullmatch(r"[A-Za-z0-9.-]+", run.name)
                assert by_name.setdefault(run.name, run.settings) == run.settings
                place = run.experiment, run.study, run.data, run.network.model, run.condition, run.variant
                settings = run.settings | {"seed": None}
                assert by_place.setdefault(place, settings) == settings, "runs of one place differ in the seed alone"
                words = run.command.split()
                assert words[:3] == ["phased", "run", name]
                given = dict(zip(words[3::2], words[4::2], strict=True))
                spelled = {option: f"--{option.replace('_', '-')}" for option in study.experiment.options}
                options = {option: given[word] for option, word in spelled.items() if word in given}
                again = runs_of(name, given["--scale"], [int(given["--seeds"]) - 1], given["--only"], options)
                assert again == [run]


@pytest.mark.parametrize("model", ["phased", "lstm"])
def test_a_result_is_one_line_that_says_everything_and_the_trained_network_can_be_had_back(tmp_path, model):
    run = tiny_run(model=model)
    line = execute(run, tmp_path)
    text = run.file(tmp_path).read_text()
    assert (text.count("\n"), json.loads(text), parse(text).line()) == (1, line, text)
    assert {file.name for file in tmp_path.glob("tiny/*")} == {run.name, f"{run.name}.jsonl"}
    place = {"name": run.name, "model": model, "condition": "asynchronous", "seed": 0, "settings": run.settings, "schema": 2}
    assert {key: line[key] for key in place} == place
    assert {"epochs", "batch", "units", "rate", "clip"} <= line["settings"].keys()
    assert [epoch["epoch"] for epoch in line["curve"]] == [1, 2, 3]
    assert line["updates"] == line["curve"][-1]["updates"]
    assert line["wall"] == pytest.approx(math.fsum(epoch["seconds"] for epoch in line["curve"]))
    assert (line["versions"]["phased"], line["machine"]["device"]) == (phased.__version__, "cpu")
    assert line["command"] == f"phased run tiny --scale quick --seeds 1 --only {run.name}"
    network = trained(run, tmp_path)
    assert not network.training
    batches = [SMALL.batch(0, "test", 3, n, 8) for n in range(2)]
    assert sum(int((network(batch).argmax(-1) == batch.y).sum()) for batch in batches) / 16 == line["curve"][-1]["test"]
    assert ("gates" in line) == (model == "phased")
    if model == "phased":
        (before,), (after,) = run.build().rnn.gates(), network.rnn.gates()
        for name in ("period", "shift", "ratio_on"):
            sides = {"before": getattr(before, name).tolist(), "after": getattr(after, name).tolist()}
            assert line["gates"][name] == sides
            assert sides["before"] != sides["after"]


def test_a_run_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint '.*tiny-asynchronous-phased-leak0.5-seed0-quick/"):
        trained(tiny_run(leak=0.5), tmp_path)


# Settings that an older record does not have


def without(settings: dict[str, Any], *path: str) -> dict[str, Any]:
    """Settings without a key, or without one inside another."""
    key, *inner = path
    left = {name: value for name, value in settings.items() if name != key}
    return left | {key: without(settings[key], *inner)} if inner else left


def belongs(run: Run, settings: dict[str, Any], **other: str) -> None:
    """An error if a record with these settings is not taken for that of the run."""
    made = describe(run, Trained([Epoch(1, 0.5, 0.5, 1.0, None)], 0), None, None, torch.device("cpu"))
    compare(run, replace(made, settings=settings, **other), Path("its file"))


USUAL = Run("tiny", "asynchronous", "quick", Sines(), NetworkConfig(), Training())


@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
@pytest.mark.parametrize("task", [Sines(), Adding()])
def test_a_setting_that_is_new_does_not_make_an_older_record_one_of_other_settings(model, task):
    run = USUAL.vary(task=task, network={"model": model})
    of_task = {("task", name) for name in run.settings["task"]} - {("task", "name")}
    for path in {(name,) for name in run.settings} - {("model",), ("task",)} | of_task:
        belongs(run, without(run.settings, *path))
    belongs(run, {"model": model, "task": {}, "of old": 3})
    belongs(run, {})


@pytest.mark.parametrize(
    "part, setting, value",
    [
        ("network", "leak", 0.5),
        ("network", "period", (0.0, 3.0)),
        ("training", "rate", 0.5),
        ("training", "seed", 7),
        ("task", "points", (2, 3)),
        ("task", "periods", "authors"),
    ],
)
def test_a_new_setting_with_another_value_than_its_default_is_another_setting(part, setting, value):
    run = USUAL.vary(**{part: {setting: value}})
    path = ("task", setting) if part == "task" else (setting,)
    with pytest.raises(ValueError, match=f"with other settings: {re.escape('.'.join(path))} is .* there, .* here"):
        belongs(run, without(run.settings, *path))
    belongs(run, run.settings)


@pytest.mark.parametrize("other", ["study", "variant"])
def test_the_record_of_another_study_or_variant_under_the_same_name_is_named(other):
    with pytest.raises(ValueError, match=f"'its file' has .* with other settings: {other} is 'another' there"):
        belongs(USUAL, USUAL.settings, **{other: "another"})


def test_a_name_is_fit_for_a_file_whatever_its_parts_are():
    run = replace(USUAL, condition="a b/../[red]", tag="<leak> 0")
    assert run.name == "tiny-a-b-..-red-phased-leak-0-seed0-quick"


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
            if not isinstance(run.task, Placeable):  # others are of data that is not here, and have tests of their own
                assert len(run.vary(network={"units": 3}).build()(run.task.batch(0, "train", 1, 0, 2))) == 2
