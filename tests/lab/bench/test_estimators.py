"""The made-up tasks of the estimators: the data is what it says, and the benchmark continues where it stopped."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from phased.cli.app import app
from phased_lab.bench import estimators
from phased_lab.bench.estimators import AHEAD, CELLS, EVERY_CHANGE, SERIES, TASKS, Plan, bits, mackey_glass
from phased_lab.bench.kept import kept

PLAN = Plan(seeds=1, epochs=1, part=100)


def test_bits_and_changes_are_the_same_streams_with_the_same_parity():
    every, changes = bits(50, seed=3, changes=False), bits(50, seed=3, changes=True)
    assert np.array_equal(every.y, changes.y)
    for (time, value), (when, changed), odd in zip(every.x, changes.x, every.y, strict=True):
        assert value.sum() % 2 == odd
        # A stream is known from its changes and their times: a bit is the latest sample at its time or before.
        runs = np.diff(np.append(when, time[-1] + 1))
        assert np.array_equal(np.repeat(changed[:, 0], runs.astype(int)), value[:, 0])


def test_all_lengths_and_both_parities_appear():
    found = bits(2000, seed=0, changes=False)
    assert {len(time) for time, _ in found.x} == set(range(2, 32))
    assert 0.45 < found.y.mean() < 0.55


def test_the_series_obeys_its_equation_and_targets_are_its_later_values():
    series = estimators.solution(2, 400.0, np.random.default_rng(0))
    lag = round(estimators.LAG / estimators.STEP)
    slope = np.diff(series[lag:], axis=0) / estimators.STEP
    past, now = series[1 : len(slope) + 1], series[lag : lag + len(slope)]
    assert np.allclose(slope, 0.2 * past / (1 + past**10) - 0.1 * now, atol=1e-9)
    assert 0.2 < series.min() < 0.6 < 1.1 < series.max() < 1.5
    found = mackey_glass(2, seed=0, events=500)
    for (time, value), later in zip(found.x, found.y, strict=True):
        assert np.all(np.diff(time) > 0)
        ahead = np.interp(time + AHEAD, time, value[:, 0])[:-20]
        assert np.corrcoef(ahead, later[:-20])[0, 1] > 0.95


def test_scores():
    assert estimators.score(TASKS[EVERY_CHANGE], np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1])) == 0.75
    y = [np.array([1.0, 3.0]), np.array([5.0, 7.0])]
    assert estimators.score(TASKS[SERIES], np.full(4, 4.0), y) == pytest.approx(1.0)


def test_seeds_change_the_data():
    one, other = (bits(200, seed, changes=False) for seed in (0, 1))
    assert not np.array_equal(one.y, other.y)


def test_an_interrupted_run_continues(tmp_path):
    seen = []

    def stop(fit):
        seen.append(fit)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimators.run(PLAN, tmp_path, stop)
    done = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(done) == 2
    found = estimators.run(PLAN, tmp_path, lambda fit: None)
    assert set(found) == set(PLAN.fits())
    assert {fit.cell for fit in found} == set(CELLS)
    assert all(file.stat().st_mtime_ns == time for file, time in done.items())
    assert all(0 <= part["score"] <= 2 and part["epochs"] == 1 for part in found.values())


def test_a_result_is_computed_once(tmp_path):
    assert kept(tmp_path / "new", "a", lambda: {"score": 0.5}) == {"score": 0.5}
    assert kept(tmp_path / "new", "a", lambda: {"score": 0.7}) == {"score": 0.5}
    assert kept(None, "a", lambda: {"score": 0.7}) == {"score": 0.7}
    (tmp_path / "new" / "a.json").write_text('{"score": 0.', encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.json' must hold a finished result as JSON, and is damaged\. Delete it"):
        kept(tmp_path / "new", "a", lambda: {"score": 0.7})


def test_the_command_prints_a_table_for_each_task_and_writes_the_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(estimators, "QUICK", PLAN)
    found = CliRunner().invoke(app, ["bench", "estimators", "--quick", "--json", str(tmp_path / "e.json")])
    assert found.exit_code == 0, found.output
    for text in (*TASKS, *CELLS, "as published", "the latest value"):
        assert text in found.output
    assert len(json.loads((tmp_path / "e.json").read_bytes())["fits"]) == len(PLAN.fits())
