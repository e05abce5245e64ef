"""The code of README and guides runs, block after block, as a reader would type it; numbers are what was measured."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from phased_lab import docs_tables
from phased_lab.bench.cases import Row, load
from phased_lab.bench.cases import read as measured
from phased_lab.bench.table_sets import SETS
from phased_lab.bench.tables import Mean, by_model
from phased_lab.report.seeds import Group, groups, spread
from phased_lab.runs.folder import read

ROOT = Path(__file__).parent.parent
README, DOCS, BENCH = ROOT / "README.md", ROOT / "docs", ROOT / "results" / "bench"
RESULTS, COST, ESTIMATOR, TABLES = (DOCS / name for name in ("results.md", "cost.md", "estimator.md", "tables.md"))
PAGES = {
    "cpu": DOCS / "core.md",
    "stream": DOCS / "core.md",
    "nmnist": DOCS / "classify.md",
    "cuda": DOCS / "gpu.md",
    "tasks": COST,
    "epoch": COST,
    "lipreading": COST,
    "tables": ESTIMATOR,
    "online": ESTIMATOR,
    "memory": ESTIMATOR,
    "reading": TABLES,
    "startup": COST,
}
needs_results = pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="source packages have no results")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


GUIDES = [DOCS / name for name in ("layers.md", "training.md", "event-files.md", "classify.md")]


@pytest.mark.parametrize("page", [README, *GUIDES], ids=lambda page: page.name)
def test_every_python_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks, f"{page} shows no Python code"
    assert len(blocks) == len(re.findall(r"^\s*```\s*(?:python|py)\b", text, re.MULTILINE)), (
        "a block is spelt so that it is not run"
    )
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        first_line = text.count("\n", 0, block.start()) + 1
        code = "\n" * first_line + block.group(1)  # a traceback then names the page's own line
        exec(compile(code, str(page), "exec"), namespace)


@needs_results
@pytest.mark.parametrize("name", docs_tables.SHOWN)
def test_tables_of_times_are_those_of_the_committed_measurements(name: str) -> None:
    page = PAGES[name.partition("-")[0]]
    for made in docs_tables.of_times(BENCH, name):
        assert made in page.read_text(encoding="utf-8"), f"{page} should show:\n{made}"


@needs_results
def test_every_file_of_measurements_can_be_read() -> None:
    files = sorted(BENCH.glob("*.json"))
    assert {file.stem for file in files} >= set(docs_tables.SHOWN)
    for file in files:
        assert load(file.stem.partition("-")[0]).tables(measured(file))


@needs_results
@pytest.mark.parametrize("facts", ["speed", "accuracy", "paper"])
def test_every_number_of_the_readme_is_the_measured_one(facts: str) -> None:
    text = " ".join(README.read_text(encoding="utf-8").split())
    for fact in FACTS[facts]():
        assert fact in text, f"{README} should say: {fact}"


def speed() -> Iterator[str]:
    """Return the sentences and rows of the README about time and memory."""
    train, infer = "training step", "inference"
    small, long = case("cpu", train, "B32 T1,000 D1 H110"), case("cpu", "growth of T", "B1 T100,000 D1 H110")
    batch, large = (case("cuda", "training step, leak 0", f"B{size} T1,000 D1 H110") for size in (32, 512))
    often, often_infer = (case("cpu", what, "B32 T1,000 D1 H110 r_on 0.25") for what in (train, infer))
    ratios = sorted(row.median("nn.LSTM") / row.median("leak 0") for row in (small, batch, large))
    yield f"**Training steps are {ratios[0]:.0f} to {ratios[-1]:.0f} times faster** than with `nn.LSTM` (1,000 time steps, 110"
    times = ms(long.median("leak 0")), ms(long.median("nn.LSTM"))
    yield f"on 100,000 time steps takes {times[0]}, with `nn.LSTM` {times[1]} (110 units, 2 CPU cores)"
    faster = [row.speed_up("leak 0").rstrip("x") for row in (often, often_infer)]
    yield f"With `ratio_on=0.25`, training is only {faster[0]} and inference only {faster[1]} times faster"
    lost, leaking = (case("cuda", "units and sequences", f"B512 T500 D8 H1024, leak {leak}") for leak in ("0", "0.001"))
    with_leak = leaking.speed_up("leak 0.001")
    without = lost.speed_up("leak 0")
    yield f"1,024 units on a GPU in TF32.** The speed-up is {without} with `leak=0`, and {with_leak} with `leak=0.001`."
    event, push, run = case("stream", "an event", "H110 D41"), "Stream.push, numpy", "Stream.run"
    us = {name: 1e6 * event.median(name) for name in (push, run, "nn.LSTMCell, step")}
    avx2 = 1e6 * case("stream-avx2", "an event", "H110 D41").median(run)
    yield f"**A streamed event takes {us[push]:.0f} us** from Python"
    onnx = event.speed_up(push, "onnxruntime LSTM, step", 0).rstrip("x")
    yield f"`push` is {onnx} times faster than ONNX Runtime with one step per call."
    yield f"{us[run]:.2f} us per event on a Xeon ({avx2:.2f} us with AVX2) with {plan('stream')['events']:,} events per call, "
    yield f"{event.speed_up(run, 'nn.LSTM, whole sequence', 0).rstrip('x')} times faster than `nn.LSTM` on the whole sequence"
    used = case("cpu", "peak memory of a training step", "B8 T100,000 D1 H110")
    rows = (
        ("32 sequences, 1,000 steps, 110 units", small, "leak 0", "nn.LSTM, {:,.0f} ms", 1, 0),
        ("512 sequences, 1,000 steps, 110 units", large, "leak 0", "cuDNN, {:,.1f} ms", 1, 0),
        ("500 steps, 1,024 units", leaking, "leak 0.001", "cuDNN, {:,.0f} ms", 0, 1),
    )
    for what, row, own, peer, digits, of_ratio in rows:
        baseline = peer.format(1e3 * row.median("nn.LSTM"))
        yield f"{what} | {row.value(own, digits)} | {baseline} | {row.speed_up(own, digits=of_ratio)} |"
    own, lstm = (used.median(name) / 1e9 for name in ("leak 0", "nn.LSTM"))
    yield f"100,000 steps | {own:.2f} GB | nn.LSTM, {lstm:.1f} GB | {used.speed_up('leak 0')} |"
    cell = "nn.LSTMCell, step"
    yield f"110 units, 41 features | {us[push]:.1f} us | nn.LSTMCell, {us[cell]:.1f} us | {event.speed_up(push, cell, 0)} |"


def accuracy() -> Iterator[str]:
    """Return the sentences of the README about accuracy."""
    fits = [case for file in sorted(BENCH.glob("tables*.json")) for case in cases(file.stem)]
    scored = {(name, model): Mean.of(own, SETS[name].score).mean for name, model, own in by_model(fits)}
    mouse, storms = (tuple(scored[name, model] for model in ("default", "lightgbm")) for name in ("mouse", "storms"))
    yield f"moves a mouse: {percent(mouse[0])}, LightGBM {percent(mouse[1])} ("
    yield f"wind in 24 hours is {storms[0]:.2f} knots. With LightGBM it is {storms[1]:.2f}."
    assert mouse[0] > mouse[1]
    assert storms[0] > storms[1]
    rates = [mean(fit["updates"] for fit in own) for _, model, own in by_model(fits) if model == "default"]
    assert len(rates) == 7
    yield f"On seven tables the default updates between {min(rates):.0%} and {max(rates):.0%} of".replace("%", " %")
    few = group("sparsity", "asynchronous", variant="r_on learned from 0.05, leak 0, openness cost 0.4")
    yield f"reaches {percent(few.test.mean)} on irregularly sampled waves with {percent(few.updates.mean)} of the updates"
    sparse = further(group("lipreading-paper", "high", variant="clips unchanged, r_on 0.05"), "video")
    dense = further(group("lipreading-paper", "high", model="lstm", variant="clips unchanged"), "video")
    yield f"`ratio_on=0.05` recognises {sparse:.0%} of the words. An LSTM recognises {dense:.0%}.".replace("%", " %")


def paper() -> Iterator[str]:
    """Return the rows of the README's table of the paper."""

    def waves(condition: str, data: str = "") -> str:
        lstm = group("frequency", condition, data, "lstm", "")
        return f"{percent(group('frequency', condition, data).test.mean)} ({percent(lstm.test.mean)}"

    first = group("weights", "asynchronous", "authors", "lstm", "initial weights N(0, 0.1)")
    yield f"| Fig. 3, regular timestamps | 99.1 % (89 %) | {waves('standard')}) |"
    yield f"| Fig. 3, irregular timestamps | 98 % (69 %) | {waves('asynchronous')}) |"
    yield f"| 98 % (69 %) | {waves('asynchronous', 'authors')}, {percent(first.test.mean)} with their initial weights) |"
    yield f"| Fig. 4a, two superimposed waves | 93 to 94 % | {percent(group('superimposed', 'superimposed').test.mean)} |"
    error = {
        leak: [group("adding", periods, variant=f"leak {leak}").test.mean for periods in ("exp(0,2)", "exp(6,8)")]
        for leak in ("0", "0.001")
    }
    assert [long < short for short, long in error.values()] == [True, False]
    yield f"| yes | yes with `leak=0` (MSE {error['0'][1]:.2g}), no with `leak=0.001` (MSE {error['0.001'][1]:.2g}) |"
    digits = group("nmnist", "simulated", variant="r_on 0.05")
    scores = [record.evaluations["rho 0.75"] for record in digits.records]
    real = percent(further(digits, "all real, rho 1"))
    yield f"| 97.3 % | {percent(further(digits, 'rho 0.75'))} simulated, {real} of 950 real recordings (all events) |"
    updates = mean(score.steps * (score.updates or 1.0) for score in scores)
    yield f"| Table 1, updates per unit | 159 of 3,153 events | {updates:.0f} of {scores[0].steps:,.0f} events |"
    learned = "r_on learned from 1"
    read_words, normalised, sparse = (
        percent(further(group(study, "high", variant=variant), "video"))
        for study, variant in (
            ("lipreading", learned),
            ("lipreading-normalised", f"inputs normalised, {learned}"),
            ("lipreading-paper", "clips unchanged, r_on 0.05"),
        )
    )
    yield f"| {read_words} (2 speakers), {normalised} with normalised inputs, {sparse} at `ratio_on=0.05` |"


FACTS: dict[str, Callable[[], Iterator[str]]] = {"speed": speed, "accuracy": accuracy, "paper": paper}


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file of `results/bench`."""
    return list(measured(BENCH / f"{name}.json")["cases"])


def case(name: str, part: str, label: str) -> Row:
    """Return a case of a file of `results/bench`."""
    (one,) = (each for each in cases(name) if (each["part"], each["case"]) == (part, label))
    return Row(one, label)


def plan(name: str) -> dict[str, Any]:
    """Return the plan of a file of `results/bench`."""
    return dict(measured(BENCH / f"{name}.json")["plan"])


def group(study: str, condition: str, data: str = "", model: str = "phased", variant: str = "leak 0") -> Group:
    """Return the runs at the paper's scale with these settings."""
    found = (each for each in all_groups() if each.scale == "paper")
    wanted = study, condition, data, model, variant
    (one,) = (each for each in found if (each.study, each.condition, each.data, each.model, each.variant) == wanted)
    return one


@cache
def all_groups() -> list[Group]:
    """Return the runs in `results`."""
    return list(groups(read(ROOT / "results").records))


def further(of: Group, evaluation: str) -> float:
    """Return the mean accuracy in a further test."""
    return spread(record.evaluations[evaluation].test for record in of.records).mean


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f} %"


def ms(seconds: float, digits: int = 0) -> str:
    """Return a time in milliseconds."""
    return f"{1e3 * seconds:,.{digits}f} ms"


def test_the_readme_stays_one_page() -> None:
    text = README.read_text(encoding="utf-8")
    before, first, _ = text.partition("```python\n")
    assert len(text.splitlines()) <= 110
    assert max(map(len, text.splitlines())) <= 130
    assert len(words(text)) <= 1_000
    assert first
    assert len(words(before)) <= 120
    assert before.count("\n") + 2 <= 32, "the first Python begins by line 32"


def words(text: str) -> list[str]:
    """Every word outside code blocks, alt texts and tables included."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).split()


@needs_results
def test_tables_of_learning_results_are_those_of_the_committed_runs() -> None:
    for name, made in docs_tables.of_runs(ROOT / "results").items():
        assert made in RESULTS.read_text(encoding="utf-8"), f"{RESULTS} should show, of {name}:\n{made}"
