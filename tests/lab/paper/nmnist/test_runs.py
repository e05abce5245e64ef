"""Digits seen by an event camera: the runs, and what a record says about them."""

import json
import shlex
import shutil
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from digits import IMAGES, REAL
from phased.data import BadRecording
from phased.data.camera import Camera, identity
from phased.learn.loop import Training
from phased_lab.cli.run import bars
from phased_lab.paper.nmnist import NMNIST
from phased_lab.paper.nmnist.network import DigitNetwork
from phased_lab.paper.nmnist.task import Digits
from phased_lab.runs.folder import read
from phased_lab.runs.sweep import runs_of, sweep

CPU = torch.device("cpu")
TRAIN, TEST = IMAGES["train"], IMAGES["t10k"]
TINY = Digits(images=(TRAIN, TEST))


def test_settings_and_commands_have_no_paths(data_folder):
    folder = str(data_folder / "nmnist")
    for run in runs_of("nmnist", "quick", [0], options={"data": folder, "skip_bad": "yes"}):
        assert run.task.folder == folder
        assert str(data_folder) not in json.dumps(run.settings) + run.command + repr(run.task) + run.name
        assert run.command.startswith("phased run nmnist --data FOLDER --skip-bad yes --scale quick")
        assert (run.condition, run.data) == ("real", "real")
        assert (run.settings["train"], run.settings["test"]) == (REAL["Train"], REAL["Test"])
        assert "folder" not in run.settings["task"]


def test_results_of_other_recordings_are_not_taken_for_those_of_a_run(data_folder, tmp_path):
    first, second = data_folder / "nmnist", tmp_path / "other"
    shutil.copytree(first, second)

    def listed(folder):
        return runs_of("nmnist", "quick", [0], options={"data": str(folder)})[0]

    assert listed(first).settings == listed(second).settings
    path = next((second / "Train").rglob("*.bin"))
    path.write_bytes(path.read_bytes()[:-5])  # one event less
    assert listed(first).settings != listed(second).settings
    assert identity(Camera(blur=0.5)) != identity(Camera()) == listed(first).settings["task"]["camera"]
    assert listed(first).settings["task"]["real"] != listed(second).settings["task"]["real"] != ""


@pytest.mark.parametrize("study", ["nmnist", "nmnist-real"])
@pytest.mark.parametrize("recordings", [None, "simulated", "real", "both"])
@pytest.mark.parametrize("named", [False, True], ids=["", "data"])
def test_the_command_of_a_run_trains_on_the_same_recordings(data_folder, study, recordings, named):
    folder = str(data_folder / "nmnist")
    given = {"recordings": recordings} if recordings else {}
    given |= {"data": folder} if named else {}
    run = runs_of(study, "quick", [0], options=given)[0]
    words = shlex.split(run.command.replace("FOLDER", folder))
    repeated = {name: words[words.index(f"--{name}") + 1] for name in ("recordings", "data") if f"--{name}" in words}
    assert runs_of(study, "quick", [0], options=repeated)[0].task == run.task


def test_a_folder_without_recordings_is_named_and_damaged_files_are_an_error_or_left_out_and_counted(data_folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"expected N-MNIST.*'{tmp_path}'"):
        runs_of("nmnist", "quick", [0], options={"data": str(tmp_path)})
    (data_folder / "nmnist" / "Test" / "3" / "00004.bin").write_bytes(b"seven by")
    options = {"data": str(data_folder / "nmnist")}
    for run in runs_of("nmnist", "quick", [0], options=options):
        with pytest.raises(BadRecording, match=r"00004\.bin"):
            run.task.to(CPU, 4)
    with pytest.warns(UserWarning, match=r"1 damaged files were left out, the first: .*00004\.bin"):
        found = runs_of("nmnist", "quick", [0], options=options | {"skip_bad": "yes"})
    assert {run.training.test for run in found} == {REAL["Test"] - 1}


@pytest.mark.parametrize("study", ["nmnist", "nmnist-ratios", "nmnist-real", "nmnist-best", "nmnist-taught"])
@pytest.mark.parametrize("archive", [False, True])
def test_a_list_of_runs_reads_no_recording(data_folder, monkeypatch, study, archive):
    if archive:
        for part in REAL:
            shutil.make_archive(str(data_folder / "nmnist" / part), "zip", data_folder / "nmnist", part)
            shutil.rmtree(data_folder / "nmnist" / part)
    for name in ("open_recordings", "simulated_recordings"):
        monkeypatch.delattr(f"phased_lab.paper.nmnist.data.{name}")
    for recordings in ("simulated", "real", "both"):
        for scale in ("paper", "quick"):
            for run in runs_of(study, scale, [0], options={"recordings": recordings}):
                images = run.task.images[0] if recordings != "real" else 0
                real = {"simulated": 0, "real": 1, "both": run.task.repeat}[recordings] * REAL["Train"]
                assert run.training.train == images + real
                assert len(run.task.evaluations()) == {"simulated": 7, "real": 3, "both": 6}[recordings]


@pytest.fixture
def tiny_table(data_folder: Path, monkeypatch: pytest.MonkeyPatch, in_process: None) -> None:
    """A quick scale of a fraction of a second."""
    training = Training(epochs=2, batch=8, schedule="one-cycle", average=0.9, smoothing=0.1)
    for name, value in {"task": TINY, "network": DigitNetwork(units=5), "training": training}.items():
        monkeypatch.setitem(NMNIST.quick, name, value)
    monkeypatch.setattr("phased_lab.paper.nmnist.models", lambda run: ("cnn", "bn-lstm", "phased"))


@pytest.mark.usefixtures("tiny_table")
def test_the_command_trains_tests_and_records(call, data_folder, tmp_path):
    arguments = ("--scale", "quick", "--seeds", 1, "--device", "cpu", "--out", tmp_path)
    for more in (("nmnist",), ("nmnist-real",), ("nmnist", "--data", data_folder / "nmnist", "--only", "*-phased-*")):
        result = call("run", *more, *arguments)
        assert result.exit_code == 0, result.output
    found = {record.name: record for record in read(tmp_path).records}
    assert set(found) == {
        *(f"nmnist-simulated-{model}-seed0-quick" for model in ("cnn", "bn-lstm", "phased")),
        "nmnist-both-phased-seed0-quick",
        "nmnist-real-phased-seed0-quick",
    }
    for record in found.values():
        assert '"schema": 3' in record.line()
        assert str(tmp_path) not in record.line()
        assert str(data_folder) not in record.line()
        for name, score in record.evaluations.items():
            kept = float(name.split()[-1])
            assert 0 <= score.test <= 1
            assert score.steps == pytest.approx(kept * 27, rel=0.35)
            assert (score.updates is None) == (record.model != "phased")
    assert found["nmnist-both-phased-seed0-quick"].settings["train"] == TRAIN + REAL["Train"]
    simulated = found["nmnist-simulated-phased-seed0-quick"]
    assert set(simulated.evaluations) == set(TINY.evaluations())
    assert simulated.evaluations["rho 0.75"].test == simulated.curve[-1].test, "the test of every epoch"
    assert "Finished before, not run again: 3." in call("run", "nmnist", *arguments).output


@pytest.mark.usefixtures("tiny_table")
def test_the_progress_of_simulating_and_reading_is_shown(data_folder, tmp_path):
    output = StringIO()
    console = Console(file=output, force_terminal=True, width=200)
    with bars(console) as show:
        sweep(runs_of("nmnist-real", "quick", [0]), tmp_path, device="cpu", show=show)
    for what in ("simulating training", "simulating test", "reading training"):
        assert f"{what} recordings" in output.getvalue()
