"""Every benchmark runs at a tiny plan: it measures all its contestants, writes them, and shows them in its tables."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from digits import write_data
from patients import known, measured, patients
from phased.ops.native import MISSING
from phased_lab.bench import BENCHMARKS, cpu, cuda, measure, online, startup, stream, training, work
from phased_lab.bench.cases import Benchmark, Case, Sheet, contestants, load, read
from phased_lab.bench.work import Work
from public_tables import write_tables

STEPS = {"leak 0", "leak 0.001", "nn.LSTM", "reference loop"}
ROUNDS = {"rounds": 1}
TINY: dict[str, tuple[dict[str, Any], int, set[str]]] = {
    "cpu": (ROUNDS, 8, {*STEPS, "open units", "whole products"}),
    "cuda": (ROUNDS, 22, {*STEPS, "leak 0.001 in TF32", "leak 0 in bfloat16", "nn.LSTM in float16"}),
    "stream": (ROUNDS | {"events": 100, "units": (6,), "lengths": (1500,)}, 3, {stream.RUN, stream.PUSH, stream.DENSE}),
    "tasks": (ROUNDS | {"figures": ("adding",)}, 1, {"leak 0, r_on 0.05", "leak 0, r_on 0.25", "leak 0.001", "plain loop"}),
    "nmnist": (ROUNDS | {"events": 40}, 1, {"Classifier, whole recording", "Stream.push", "nn.LSTMCell, step"}),
    "epoch": (ROUNDS | {"recordings": 8}, 1, {"Phased LSTM", "Phased LSTM, recordings changed", "nn.LSTM", "BN-LSTM"}),
    "lipreading": (ROUNDS | {"clips": 2}, 2, {"Phased LSTM, r_on 1", "Phased LSTM, r_on 0.05", "BN-LSTM", "LSTM"}),
    "tables": ({"sets": ["pbc", "physionet"], "models": ["gru"], "seeds": 1, "folds": 2, "only": [1], "epochs": 1}, 2, {"gru"}),
    "online": (ROUNDS | {"sequences": 40}, 2, {"push", "push, without the compiled core"}),
    "reading": (ROUNDS | {"rows": 4440}, 1, {"CSV", "Parquet", "polars"}),
    "memory": ({"sequences": (40,), "epochs": 1}, 1, set()),
    "startup": (ROUNDS, 1, {"phased --version", "import torch", "python -c pass"}),
}
"""The plan, the number of cases, and some of the contestants of each benchmark."""
SHOWN = {
    "cpu": ("training step, B2 T12 D1 H4", "inference, B2 T14 D1 H4", "MB", "x less", "whole products", "growth of T, B2 T12"),
    "cuda": ("both in TF32", "bfloat16, nn.LSTM in float16", "one call, waited for", "0.50 ms", "B2 T14 D1 H4"),
    "stream": ("| onnxruntime LSTM, step |", ", H6 D41: ", ", 1,500: "),
    "tasks": ("| adding |", " ms, ", " min (0.25)"),
    "memory": ("| 40 sequences, ", "fit, less the imports"),
}
"""What tables show, if it is not the contestants."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Problems of a few steps and units, data of a few sequences, and one timed call of each contestant."""
    monkeypatch.setattr(measure, "TURN", 0.0)
    tiny = Work(2, 12, 1, 4)
    two = dict.fromkeys(("TABLE", "EVEN", "SPARSE", "PRECISE", "HALF", "LEAKING", "GRID", "LONGEST"), (tiny, replace(tiny, T=14)))
    for name, works in {**two, **dict.fromkeys(("WIDER", "COMMON", "OPENER", "LARGE"), ())}.items():
        monkeypatch.setattr(cpu if hasattr(cpu, name) else cuda, name, works)
    monkeypatch.setattr(cuda, "MEMORY", two["SPARSE"])
    monkeypatch.setattr(cpu, "MEMORY", tiny)
    monkeypatch.setattr(cpu, "GROWTH", {"T": (tiny,)})
    run = training.run_of("adding").vary(task={"length": (10, 12)}, network={"units": 4})
    monkeypatch.setattr(training, "run_of", lambda task: run)
    monkeypatch.setitem(training.RUNS, "adding", ("", 0.25))
    monkeypatch.setattr(training, "DIGITS", training.DIGITS.vary(training={"batch": 4}))
    monkeypatch.setattr(training, "LIPS", training.LIPS.vary(network={"units": (3, 4, 5, 5)}))
    monkeypatch.setattr(training, "SECONDS", 1)
    monkeypatch.setattr(online, "MANY", 100)
    monkeypatch.setattr(startup, "STARTS", dict.fromkeys(startup.STARTS, "pass"))
    monkeypatch.setenv("PHASED_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def on_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark of a GPU measures the layers of this CPU."""
    made = work.steps
    monkeypatch.setattr(work, "steps", lambda work, names, device, train=True: made(work, names, "cpu", train))
    monkeypatch.setattr(cuda, "kernel_times", lambda work, name: {"forward": 0.5e-3})
    monkeypatch.setattr(cuda, "peak_memory", lambda work, name: 1e6 * len(name))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setitem(work.TERMS, "bfloat16", nullcontext)


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty made-up stays as PhysioNet distributes them, and made-up tables."""
    folder = write_tables(tmp_path_factory.mktemp("data"))
    place = folder / "physionet2012"
    (place / "set-a").mkdir(parents=True)
    events, y = patients(40)
    for number in range(40):
        steps = [(0.0, {"RecordID": number, "Height": -1, "Weight": -1, **known(events, number)}), *measured(events, number)]
        rows = [f"{int(t):02}:{int(60 * (t % 1)):02},{name},{value:g}" for t, values in steps for name, value in values.items()]
        (place / "set-a" / f"{number}.txt").write_text("\n".join(["Time,Parameter,Value", *rows, ""]))
    outcomes = ["RecordID,SAPS-I,In-hospital_death", *(f"{number},1,{sick}" for number, sick in enumerate(y)), ""]
    (place / "Outcomes-a.txt").write_text("\n".join(outcomes))
    return folder


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.usefixtures("small", "on_this_cpu")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_measures_its_contestants_and_shows_them(name: str, tmp_path: Path, stays: Path) -> None:
    settings, count, names = TINY[name]
    found, file = load(name), tmp_path / "made" / f"{name}.json"
    plan = found.plan(**settings, **({"data": stays} if name == "tables" else {}))
    result = found.run(plan, file)
    assert read(file) == json.loads(json.dumps(result))
    assert len(result["cases"]) == count
    seconds = [case["seconds"] for case in result["cases"] if "seconds" in case]
    assert set().union(*seconds, (case["model"] for case in result["cases"] if "model" in case)) >= names
    timings = [timing for each in seconds for timing in each.values()]
    assert all(min(timing) > 0 for timing in timings if not isinstance(timing, float))
    shown = "\n".join(table.markdown() for table in found.tables(read(file)))
    assert all(text in shown for text in SHOWN.get(name, names)), shown
    assert found.run(plan, file) == read(file), "a second call measures nothing"


def three_cases(calls: list[str], stop: str = "") -> Benchmark:
    """A benchmark of three cases, at one of which the user stops it."""

    def measure(name: str) -> dict[str, Any]:
        if name == stop:
            raise KeyboardInterrupt
        calls.append(name)
        return {"seconds": {"ours": [1.0, 1.0, 1.0]}}

    def cases(rounds: int, jobs: int = 1) -> list[Case]:
        return [Case("part", name, lambda name=name: measure(name)) for name in "abc"]

    return Benchmark(cases, (Sheet(contestants("part"), {"{rounds} rounds": lambda row: row.label}),), choices=["jobs"])


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_benchmark_continues_and_one_of_other_settings_or_of_another_commit_does_not(
    tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, calls = tmp_path / "a.json", []
    monkeypatch.setenv("PHASED_COMMIT", "c0ffee")
    with pytest.raises(KeyboardInterrupt):
        three_cases(calls, stop="c").run({"rounds": 2, "jobs": jobs}, file)
    assert sorted(case["case"] for case in read(file)["cases"]) == ["a", "b"]
    result = three_cases(calls).run({"rounds": 2}, file)
    assert sorted(calls) == ["a", "b", "c"]
    assert three_cases(calls).tables(result)[0].head == ["2 rounds"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(
        ValueError, match=r"a\.json' has measurements with rounds 2, which cannot go on with rounds 3\. Delete it"
    ):
        three_cases(calls).run({"rounds": 3}, file)
    monkeypatch.setenv("PHASED_COMMIT", "badcafe")
    with pytest.raises(ValueError, match=r"measurements with commit c0ffee, which cannot go on with commit badcafe\. Delete it"):
        three_cases(calls).run({"rounds": 2}, file)
    file.write_text('{"machine": {}, "plan"')
    with pytest.raises(ValueError, match=r"a\.json' must be a file of `phased bench`, and is not"):
        three_cases(calls).run({"rounds": 2}, file)
