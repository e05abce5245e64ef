"""`phased bench tables`: sets, folds, scores, the summaries of other models, and the whole way on made-up tables."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from phased.estimator import Events
from phased_lab.bench import charts, table_made_up, table_models, tables
from phased_lab.bench.cases import read as measured
from phased_lab.bench.table_models import CELLS, MODELS, PEERS, Model, Sequences
from phased_lab.bench.table_sets import ERRORS, SETS, Problem, read, scores
from phased_lab.bench.table_summaries import QUANTILES, of_sequences, of_steps, resampled
from public_tables import SEQUENCES, write_tables

LIGHTGBM = '''"""A stand-in: it predicts the mean."""
import numpy as np

def early_stopping(rounds, verbose): return rounds

class Dataset:
    def __init__(self, x, y): self.x, self.y = x, y
    def create_valid(self, x, y): return Dataset(x, y)

class Model:
    best_iteration = 3
    def __init__(self, settings, y): self.classes, self.y = settings.get("num_class", 0), y
    def predict(self, x):
        if not self.classes: return np.full(len(x), self.y.mean())
        return np.tile(np.bincount(self.y.astype(int), minlength=self.classes) / len(self.y), (len(x), 1))

def train(settings, data, rounds, valid_sets, **more):
    assert len(data.x) == len(data.y) and not np.isnan(data.y).any()
    assert rounds == (500 if valid_sets else 3)
    return Model(settings, data.y)
'''
MINIROCKET = '''"""A stand-in: its features are the means of the channels."""
class MiniRocket:
    def __init__(self, n_kernels, n_jobs, random_state): pass
    def fit_transform(self, x): return x.mean(2)
    transform = fit_transform
'''


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This interpreter has stand-ins of the packages of other models."""
    folder = tmp_path / "packages"
    for name, text in {"lightgbm": LIGHTGBM, "aeon/transformations/collection/convolution_based": MINIROCKET}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(tables, "interpreter", lambda: sys.executable)


@pytest.mark.usefixtures("peers")
def test_estimators_and_other_models_are_measured_on_the_same_fold_and_stand_in_one_file(call, data, tmp_path):
    file, pickles = tmp_path / "tables.json", tmp_path / "pickles"
    words = ["bench", "tables", "--set", "vowels", "--set", "storms", "--json", file, "--quick", "--pickles", pickles]
    for place, models, count in (
        (data, ["default", "updates=0.1"], 4),
        ("not read again", ["lightgbm", "minirocket_rows"], 7),
        ("not read again", ["minirocket_rows"], 7),
    ):
        found = call(*words, "--data", place, "--jobs", 2, *(word for model in models for word in ("--model", model)))
        assert found.exit_code == 0, found.output
        assert len(measured(file)["cases"]) == count
    cases = {(case["part"], case["model"]): case for case in measured(file)["cases"]}
    both = {(name, model) for name in ("vowels", "storms") for model in ("default", "updates=0.1", "lightgbm")}
    assert set(cases) == both | {("vowels", "minirocket_rows")}
    for (name, model), case in cases.items():
        assert SETS[name].score in case["scores"]
        assert np.isfinite(list(case["scores"].values())).all()
        assert min(case["cpu"], case["memory"]) > 0
        assert (case["updates"] is None) == (model in PEERS)
        assert ("log loss" in case["scores"]) == (name == "vowels" and "minirocket" not in model)
    assert cases["storms", "updates=0.1"]["updates"] <= 0.1
    assert cases["vowels", "minirocket_rows"]["scores"]["accuracy"] == 1.0  # the means of the variables tell the class
    assert "vowels: accuracy" in found.output
    accuracy, budgets = charts.draw_tables([measured(file)])
    for figure in (accuracy, budgets):
        assert [panel["title"] for panel in figure.chart.to_dict()["concat"]] == ["vowels", "storms"]


def test_every_model_that_can_predict_a_set_has_a_case_for_each_of_its_seeds_and_folds():
    own, peers = (list(tables.tables.cases(sets=["pbc", "stars"], peers=peers, only=[1, 4])) for peers in (False, True))
    assert len({(case.part, case.name) for case in own}) == len(own)
    names = [case.name for case in own if case.part == "pbc"]
    assert names == [case.name for case in own if case.part == "stars"]
    seeds = {model: sorted({int(name.split()[2][:-1]) for name in names if name.startswith(f"{model},")}) for model in MODELS}
    assert {model: len(own) for model, own in seeds.items() if own} == {
        model: 5 if model in ("default", "gru") else 2 for model in MODELS if model not in PEERS
    }
    assert [case.name for case in peers if case.part == "pbc"] == [
        f"lightgbm, seed {s}, fold {f}" for s in (0, 1) for f in (1, 4)
    ]
    assert [case.name for case in peers if case.part == "stars"][:3] == [f"{model}, seed 0, fold 1" for model in PEERS]
    assert len(list(tables.tables.cases(sets=["pbc"], seeds=1, models=[*CELLS]))) == 5 * len(CELLS)


@pytest.mark.parametrize("name", ["vowels", "pbc", "storms"])
def test_folds_part_the_sequences_and_are_the_same_every_time(data, name):
    problem = read(name, data)
    folds = problem.folds(5)
    assert sorted(np.concatenate(folds)) == list(range(SEQUENCES))
    assert all(np.array_equal(*pair) for pair in zip(folds, read(name, data).folds(5), strict=True))
    if name == "vowels":
        assert all(np.array_equal(np.bincount(problem.y[fold].astype(int)), [2, 2, 2]) for fold in folds)
        assert problem.classes.tolist() == ["speaker 0", "speaker 1", "speaker 2"]
    for fold in folds:  # targets are those of the sequences' own steps
        wanted = [problem.targets(np.array([row])) for row in fold]
        assert np.array_equal(problem.targets(fold), np.concatenate(wanted), equal_nan=True)
        assert len(problem.targets(fold)) == (len(problem.events[fold].time) if problem.every_step else len(fold))


def test_classes_are_numbered_and_unknown_targets_are_not_classes(data):
    problem = read("pbc", data)
    assert problem.classes.tolist() == [0.0, 1.0]
    assert np.isnan(problem.y).sum() == SEQUENCES
    words = np.array(["b", None, "a", "b"], object)
    found = Problem.of(Events.of([[0, 1], [0, 1]], [[1, 2], [3, 4]]), words, numbers=False, every_step=True)
    assert found.classes.tolist() == ["a", "b"]
    assert np.array_equal(found.y, [1, np.nan, 0, 1], equal_nan=True)


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_are_those_of_scikit_learn_over_known_targets(classes):
    random = np.random.default_rng(classes)
    y, p = random.integers(0, classes, 200).astype(float), random.dirichlet(np.ones(classes), 200)
    y[::7] = np.nan
    known = ~np.isnan(y)
    found, chosen = scores(y, p), p[known].argmax(1)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y[known], chosen))
    assert found["balanced accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y[known], chosen))
    assert found["log loss"] == pytest.approx(metrics.log_loss(y[known], p[known]))
    assert ("AUROC" in found) == (classes == 2)
    if classes == 2:
        assert found["AUROC"] == pytest.approx(metrics.roc_auc_score(y[known], p[known, 1]))
    assert "log loss" not in scores(y, p, probabilities=False)
    error = (y - p[:, 0])[known]
    relative = np.sqrt(np.mean(error**2)) / y[known].std()
    assert list(scores(y, p[:, 0]).values()) == pytest.approx([np.abs(error).mean(), relative])


def test_a_fold_without_one_of_the_classes_is_scored():
    found = scores(np.array([0.0, 0.0]), np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]))
    assert (found["accuracy"], found["balanced accuracy"]) == (0.5, 0.5)
    assert "AUROC" not in scores(np.zeros(2), np.full((2, 2), 0.5))


def sequences(seed: int, count: int = 6, width: int = 3) -> Events:
    """Sequences with few values of each variable."""
    random = np.random.default_rng(seed)
    times = [random.integers(0, 20, random.integers(1, 9)).cumsum() / 4 for _ in range(count)]
    values = [np.where(random.random((len(t), width)) < 0.5, np.nan, random.normal(5, 1, (len(t), width))) for t in times]
    return Events.of(times, values, static=random.normal(size=(count, 1)))


def arrays(events: Events) -> Sequences:
    """As other models are given them."""
    return Sequences(events.sequence, events.time, events.dense(), events.static)


@given(seed=st.integers(0, 10**6), step=st.integers(0, 8))
def test_a_summary_at_a_step_does_not_depend_on_later_steps(seed, step):
    events, random = sequences(seed), np.random.default_rng(seed + 1)
    offset = events.offset.tolist()
    times, values, dense = [], [], events.dense()
    for start, end in pairwise(offset):
        own = dense[start:end].copy()
        own[step + 1 :] = np.where(
            random.random(own[step + 1 :].shape) < 0.5, np.nan, random.normal(0, 100, own[step + 1 :].shape)
        )
        times.append(np.append(events.time[start : min(end, start + step + 1)], events.time[start + step + 1 : end] + 7))
        values.append(own)
    other = Events.of(times, values, static=events.static)
    before, after = (of_steps(arrays(each)) for each in (events, other))
    kept = np.arange(offset[-1]) - events.offset[events.sequence] <= step
    assert np.array_equal(before[kept], after[kept], equal_nan=True)


@given(seed=st.integers(0, 10**6))
def test_summaries_are_the_statistics_of_a_sequence_and_of_its_steps_so_far(seed):
    events = sequences(seed)
    of_all, so_far = of_sequences(arrays(events)), of_steps(arrays(events))
    statistics = 10 + len(QUANTILES)
    for row, (start, end) in enumerate(zip(events.offset[:-1], events.offset[1:], strict=True)):
        for variable in range(3):
            value, time = events.dense()[start:end, variable], events.time[start:end]
            known = ~np.isnan(value)
            v, t, found = value[known], time[known], of_all[row, variable : 3 * statistics : 3]
            now = so_far[end - 1, variable::3][:8]  # the variables of each statistic lie side by side
            if not len(v):
                assert np.isnan(found).all()
                assert np.isnan(now).all()
                continue
            deviation = v.std(ddof=1) if len(v) > 1 else np.nan
            wanted = [len(v), v[0], v[-1], v.mean(), deviation, v.min(), v.max(), *np.quantile(v, QUANTILES)]
            assert found[:-3] == pytest.approx(wanted, nan_ok=True)
            current = [v[-1], time[-1] - t[-1], v.mean(), v.std(), len(v), v.min(), v.max()]
            assert now[:7] == pytest.approx(current, rel=1e-5, abs=1e-3)
            if len(v) > 1:
                assert found[-3] == pytest.approx(np.abs(np.diff(v)).mean())
                assert found[-2] == pytest.approx((t[-1] - t[0]) / (len(v) - 1))
                assert now[7] == pytest.approx(v[-1] - v[-2], rel=1e-5, abs=1e-5)
            if np.ptp(t) > 0:
                assert found[-1] == pytest.approx(np.polyfit(t - t[0], v, 1)[0], abs=1e-6)
        assert of_all[row, -4:-1] == pytest.approx(
            [end - start, np.ptp(time), np.ptp(time) / (end - start - 1) if end - start > 1 else np.nan], nan_ok=True
        )
        assert of_all[row, -1] == pytest.approx(events.static[row, 0])


def test_a_line_in_time_is_a_line_at_even_times_and_a_variable_without_values_has_none():
    times = np.array([0.0, 1.0, 4.0, 10.0])
    events = Events.of([times], [np.column_stack([2 * times, [np.nan, 3, np.nan, np.nan], np.full(4, np.nan)])])
    by_time, by_row = (resampled(arrays(events), 5, by_time=by)[0] for by in (True, False))
    assert by_time[:, 0].tolist() == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert by_row[:, 0].tolist() == [0.0, 1.5, 5.0, 11.0, 20.0]
    assert by_row[:, 1].tolist() == [3.0] * 5
    assert np.isnan(by_time[:, 2]).all()
    assert by_row[-1, 3] == np.log1p(6.0)


def fits(name: str, model: str, found: dict[int, list[float]]) -> list[dict]:
    """Made-up cases: the scores of each seed by fold."""
    score = SETS[name].score
    costs = {"cpu": 2.0, "memory": 3e6, "updates": 0.25}
    return [
        {"part": name, "case": f"{model} {seed} {fold}", "model": model, "seed": seed, "scores": {score: value}, **costs}
        for seed, values in found.items()
        for fold, value in enumerate(values)
    ]


def test_a_row_is_the_mean_over_folds_with_the_spread_over_seeds():
    cases = fits("pbc", "default", {0: [0.6, 0.8], 1: [0.8, 1.0]}) + fits("storms", "lightgbm", {0: [9.0, 12.0]})
    (sheet,) = tables.tables.tables({"machine": {}, "plan": {}, "cases": cases})
    assert sheet.rows[0] == ["pbc: AUROC", "default", "0.800 ± 0.141", "", "", "2.0", "25 %", "3 MB", "4"]
    assert sheet.rows[1][:3] == ["storms: mean absolute error", "lightgbm", "10.50"]


def test_the_chart_has_a_panel_for_each_set_with_better_scores_above(tmp_path):
    cases = fits("pbc", "default", {0: [0.6]}) + fits("pbc", "lightgbm", {0: [0.7]}) + fits("storms", "lightgbm", {0: [9.0]})
    results = [{"machine": {"processor": "a CPU", "torch": "2"}, "plan": {}, "cases": part} for part in (cases[:1], cases[1:])]
    (figure,) = charts.draw_tables(results)
    panels = figure.chart.to_dict()["concat"]
    assert [panel["title"] for panel in panels] == ["pbc", "storms"]
    assert [panel["encoding"]["y"]["scale"]["reverse"] for panel in panels] == [
        SETS[n].score in ERRORS for n in ("pbc", "storms")
    ]
    points = [row for rows in figure.chart.to_dict()["datasets"].values() for row in rows]
    assert sorted((row["label"], row["score"]) for row in points) == [("default", 0.6), ("lightgbm", 0.7), ("lightgbm", 9.0)]
    assert charts.draw_tables([]) == []


def test_memory_is_that_of_the_fit_without_imports_and_without_this_process(monkeypatch, tmp_path):
    (tmp_path / "large.py").write_text("held = bytearray(60_000_000)\n")
    (tmp_path / "hungry.py").write_text(
        "import numpy\ndef fit(train, test, size):\n    return numpy.ones(size)[:2] + train[1], 0.5\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    held = np.ones(20_000_000)
    answer, cost = table_models.fitted(Model("hungry:fit", ("large",), {"size": 5_000_000}), ([], held[:2]), [])
    assert (answer.tolist(), cost["updates"]) == ([2.0, 2.0], 0.5)
    assert 40e6 <= cost["memory"] < 55e6
    assert cost["cpu"] > 0


def test_a_fit_that_fails_says_why():
    with pytest.raises(ChildProcessError, match=r"the fit of json:loads ended with exit status 1: TypeError: loads"):
        table_models.fitted(Model("json:loads", ()), ([], np.zeros(0)), [])


def test_parity_is_that_of_a_stream_of_bits_which_its_changes_tell():
    events, y = table_made_up.parity(2000)
    assert 0.45 < y.mean() < 0.55
    lengths = set()
    for start, end, odd in zip(events.offset[:-1], events.offset[1:], y, strict=True):
        time, bit = events.time[start:end], events.dense()[start:end, 0]
        assert (bit[1:-1] != bit[:-2]).all()
        assert bit @ np.diff(np.append(time, time[-1] + 1)) % 2 == odd  # a bit is the latest sample at its time or before
        lengths.add(time[-1])
    assert lengths == set(range(2, 32))


def test_the_series_obeys_its_equation_and_targets_are_its_later_values():
    series = table_made_up.solution(2, 400.0, np.random.default_rng(0))
    lag = round(table_made_up.LAG / table_made_up.STEP)
    slope = np.diff(series[lag:], axis=0) / table_made_up.STEP
    past, now = series[1 : len(slope) + 1], series[lag : lag + len(slope)]
    assert np.allclose(slope, 0.2 * past / (1 + past**10) - 0.1 * now, atol=1e-9)
    assert 0.2 < series.min() < 0.6 < 1.1 < series.max() < 1.5
    events, y = table_made_up.mackey_glass(2, samples=500)
    assert len(y) == len(events.time) == 1000
    for own in (slice(0, 500), slice(500, 1000)):
        time, value = events.time[own], events.dense()[own, 0]
        ahead = np.interp(time + table_made_up.AHEAD, time, value)[:-20]
        assert np.corrcoef(ahead, y[own][:-20])[0, 1] > 0.95


def test_an_environment_that_cannot_be_made_is_removed(monkeypatch, tmp_path):
    folder = tmp_path / "peers"

    def failing(words: list[str], **_: object) -> None:
        folder.mkdir(exist_ok=True)
        if "pip" in words:
            raise subprocess.CalledProcessError(1, words, stderr="no network\n")

    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(ChildProcessError, match=r"peers' cannot be made with lightgbm==.*: no network"):
        table_models.interpreter(folder)
    assert not folder.exists()
    folder.mkdir()
    assert Path(table_models.interpreter(folder)).is_relative_to(folder)  # it is not made again


@pytest.mark.parametrize(
    "words, message",
    [
        (("--set", "iris"), "--set must be one of 'stars', 'mouse'"),
        (("--model", "xgboost"), "--model must be one of 'default'"),
        (("--fold", "5"), "--fold must be below the number of folds, 5, got 5"),
        (
            ("--set", "vowels", "--data", "nowhere"),
            "expected the set vowels: train.parquet and train_labels",
        ),
        (("--set", "physionet", "--data", "nowhere"), "Download and unpack them from https://physionet.org"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_answered_with_what_to_do(refused, words, message):
    refused(message, "bench", "tables", *words)
