"""The benchmark on PhysioNet 2012 with made-up stays in its layout: folds, scores, the table, and an interrupted run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from patients import known, measured, patients
from phased.cli.app import app
from phased_lab.bench import physionet
from phased_lab.bench.physionet import CELLS, Fit, Part, Plan

PLAN = Plan(seeds=2, folds=2, units=4, epochs=1)


def clock(hours: float) -> str:
    return f"{int(hours):02}:{round(60 * (hours % 1)) % 60:02}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty made-up stays as PhysioNet distributes them."""
    place = tmp_path_factory.mktemp("physionet")
    (place / "set-a").mkdir()
    events, y = patients(40)
    outcomes = ["RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"]
    for number, sick in enumerate(y):
        lines = ["Time,Parameter,Value", f"00:00,RecordID,{number}"]
        lines += [f"00:00,{name},{value:g}" for name, value in {"Height": -1, "Weight": -1, **known(events, number)}.items()]
        lines += [
            f"{clock(time)},{name},{value:g}" for time, values in measured(events, number) for name, value in values.items()
        ]
        (place / "set-a" / f"{number}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        outcomes.append(f"{number},1,1,5,-1,{sick}")
    (place / "Outcomes-a.txt").write_text("\n".join(outcomes) + "\n", encoding="utf-8")
    return place


def run(folder, plan=PLAN, parts=None, before=lambda fit: None):
    events, y = physionet.read(folder)
    return y, physionet.run(events, y, plan, parts, before)


def test_every_stay_is_predicted_once_by_each_cell_and_seed(folder):
    y, parts = run(folder)
    assert set(parts) == {Fit(cell, seed, fold) for cell in CELLS for seed in range(2) for fold in range(2)}
    folds = PLAN.folds_of(y)
    assert sorted(np.concatenate(folds)) == list(range(40))
    assert all(len(part.probability) == len(folds[fit.fold]) for fit, part in parts.items())


def test_an_interrupted_run_continues_with_the_same_numbers(folder, tmp_path):
    plan = replace(PLAN, cells=("phased LSTM",))
    _, whole = run(folder, plan)
    stopped = []

    def stop(fit):
        stopped.append(fit)
        if len(stopped) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, plan, tmp_path, stop)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(kept) == 2
    _, parts = run(folder, plan, tmp_path)
    assert [part.probability for part in parts.values()] == [part.probability for part in whole.values()]
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())


def test_finished_fits_are_of_this_data_and_of_these_settings(folder):
    events, y = physionet.read(folder)
    own = physionet.identity(events, y, PLAN)
    assert physionet.identity(events, y, replace(PLAN, seeds=9, cells=("nn.GRU",))) == own
    assert physionet.identity(events, y, replace(PLAN, units=5)) != own
    assert physionet.identity(events, 1 - y, PLAN) != own


def made_up(plan: Plan, y: np.ndarray, strength: dict[str, float]) -> dict[Fit, Part]:
    """Parts of models whose probabilities follow the outcome as strongly as their cell says."""
    random = np.random.default_rng(0)
    folds, parts = plan.folds_of(y), {}
    for fit in plan.fits():
        own = y[folds[fit.fold]]
        noisy = 1 / (1 + np.exp(-random.normal(strength[fit.cell] * own, 1.0)))
        parts[fit] = Part(noisy.tolist(), 3, [0.5, 0.1, 0.2])
    return parts


def test_scores_are_those_of_the_stays_and_differences_are_paired():
    y = np.arange(400) % 4 // 3
    plan = Plan(seeds=3, folds=4)
    parts = made_up(plan, y, {"phased LSTM": 2.0, "nn.LSTM": 1.0, "nn.GRU": 2.0})
    best, worse, alike = physionet.summary(y, plan, parts)
    fold = plan.folds_of(y)[1]
    p = physionet.whole(y, plan.folds_of(y), [parts[Fit("nn.LSTM", 0, k)] for k in range(4)])
    assert physionet.ranked(y, [fold], p)[fold[y[fold] == 1]].mean() == pytest.approx(roc_auc_score(y[fold], p[fold]))
    assert physionet.ranked(y, [fold], p)[fold[y[fold] == 0]].mean() == pytest.approx(roc_auc_score(y[fold], p[fold]))
    assert worse["auroc_mean"] == pytest.approx(np.mean(worse["auroc"]))
    assert worse["difference"] == pytest.approx(worse["auroc_mean"] - best["auroc_mean"])
    assert (best["difference"], best["difference_error"]) == (0.0, 0.0)
    assert worse["difference"] < -3 * worse["difference_error"] < 0
    assert abs(alike["difference"]) < 4 * alike["difference_error"]
    assert best["auroc_together"] > best["auroc_mean"]
    assert (best["seconds_per_epoch"], best["epochs_kept"]) == (0.2, [3] * 12)


def test_one_seed_has_no_spread():
    y = np.arange(40) % 2
    plan = Plan(seeds=1, folds=2)
    assert physionet.summary(y, plan, made_up(plan, y, dict.fromkeys(CELLS, 1.0)))[0]["auroc_spread"] is None


def test_the_command_prints_a_table_and_writes_what_it_measured(folder, tmp_path):
    file = tmp_path / "physionet.json"
    command = ["bench", "physionet", "--quick", "--folds", "2", "--data", str(folder), "--json", str(file)]
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, command)
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in (*CELLS, "40 stays, 2 folds, 1 seeds"))
    found = json.loads(file.read_text(encoding="utf-8"))
    assert [row["cell"] for row in found["cells"]] == list(CELLS)
    assert found["machine"]["threads"] == 1
    assert found["plan"]["seeds"] == 1
    assert found["deaths"] == 20


def test_a_folder_without_the_stays_is_refused(tmp_path):
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "physionet", "--data", str(tmp_path)])
    assert result.exit_code == 1
    assert "got no 'set-a'" in result.output
