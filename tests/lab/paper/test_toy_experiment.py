"""A new experiment is a new file, and nothing else: the one in `toy.py` is listed, trained, reported and gathered."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import phased_lab.paper
from phased.cli.app import app
from phased_lab import docs_tables
from phased_lab.report.seeds import groups
from phased_lab.runs import discovery, sweep
from phased_lab.runs.folder import read
from records import visible

TOY = Path(__file__).with_name("toy.py")
DRAWN = ("bars", "learning", "updates", "gates", "raster")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, one_worker: Any) -> Iterator[SimpleNamespace]:
    """The toy as a file of the package, the command, and folders with the toy's results and their report."""
    place, results, out = (tmp_path_factory.mktemp(name) for name in ("toy", "results", "report"))
    shutil.copy(TOY, place)
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})

    def call(*arguments: object, code: int = 0) -> str:
        result = runner.invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return str(result.output)

    def run(*arguments: object, out: Path = results, code: int = 0) -> str:
        return call("run", *arguments, "--seeds", 2, "--device", "cpu", "--out", out, code=code)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phased_lab.paper, "__path__", [*phased_lab.paper.__path__, str(place)])
        patch.setattr(sweep, "connected", lambda *_: nullcontext(one_worker))
        discovery.experiments.cache_clear()
        told = run("toy") + run("toy-wide")
        call("report", "--results", results, "--out", out)
        yield SimpleNamespace(call=call, run=run, results=results, told=told, out=out)
    del sys.modules["phased_lab.paper.toy"]
    del phased_lab.paper.toy
    discovery.experiments.cache_clear()


def test_the_toy_is_in_the_list_beside_the_others_and_its_help_has_its_options(toy):
    lines = {line.split()[0]: line for line in toy.call("run").splitlines() if line.strip()}
    for name, about in {
        "toy": "is a number positive?",
        "toy-wide": "the same with more units",
        "sketch": "a line, drawn",
    }.items():
        assert about in lines[name]
    told = toy.call("run", "toy", "--help")
    assert "--noise" in told
    assert "How loud it is around." in told
    assert "--noise" not in toy.call("run", "sketch", "--help")
    others = "gate memory schedule frequency superimposed adding camera saccades nmnist lipreading"
    assert [name for name in discovery.experiments() if name != "sketch"] == ["toy", *others.split()]


def test_the_toys_runs_are_recorded_where_they_belong(toy):
    assert "toy-even-phased-leak0-seed1" in toy.told
    lines = [json.loads(file.read_text()) for file in (toy.results / "toy").glob("*.jsonl")]
    assert len(lines) == 2 * 2 * 4 + 2
    places = {(line["study"], line["condition"], line["model"], line["variant"]) for line in lines}
    leaks = ("leak 0", "leak 0.001", "leak 0.01")
    assert places == {
        *(("toy", condition, "phased", leak) for condition in ("even", "uneven") for leak in leaks),
        *(("toy", condition, "lstm", "") for condition in ("even", "uneven")),
        ("toy-wide", "even", "phased", "9 units"),
    }
    for line in lines:
        task = {"name": "Numbers", "condition": line["condition"], "noise": 0.1, "features": 1, "classes": 2}
        assert line["settings"]["task"] == task
        assert ("gates" in line) == (line["model"] == "phased")


def test_the_toys_option_makes_runs_of_its_own(toy, tmp_path):
    arguments = ("--scale", "quick", "--only", "*even-lstm-*")
    toy.run("toy", "--noise", "high", *arguments, out=tmp_path / "results")
    (line,) = (json.loads(file.read_text()) for file in tmp_path.rglob("toy-even-*seed0*.jsonl"))
    assert (line["data"], line["settings"]["task"]["noise"]) == ("high", 1.0)
    assert line["command"] == "phased run toy --noise high --scale quick --seeds 1 --only toy-even-lstm-high-seed0-quick"
    told = toy.run("toy", "--noise=deafening", *arguments, code=1)
    assert "noise must be one of 'low', 'high', got 'deafening'" in told
    toy.call("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    assert "numbers in noise" in visible((tmp_path / "out" / "report.html").read_text())
    assert {file.stem for file in (tmp_path / "out").glob("*.png")} == {"toy-quick-high-bars", "toy-quick-high-learning"}


def test_the_page_and_the_tables_have_the_toy_in_its_own_words_and_numbers(toy):
    page = (toy.out / "report.html").read_text()
    text = visible(page)
    for expected in (
        "Fig. 99: Signs of numbers",
        "What the paper finds: numbers have signs.",
        "quiet numbers",
        "87.5",
        "phased run toy --scale paper --seeds 5",
    ):
        assert expected in text, expected
    for expected in ("a sample every second", "a sample now and then", "#123456"):
        assert expected in page, "in its charts"
    assert all(f'id="toy-{chart}"' in page for chart in DRAWN)
    assert {file.name for file in toy.out.glob("*.png")} == {f"toy-{chart}.png" for chart in DRAWN}
    assert page.index("Signs of numbers") < page.index("Frequency discrimination"), "in the order of their places"
    tables = docs_tables.of_runs(toy.results)
    assert [len(tables[name].splitlines()[2:]) for name in ("toy", "beyond toy")] == [8, 1]
    assert tables["leak"].count("| toy, ") == 2 * 2
    for group in groups(read(toy.results).records):
        assert f"{group.label} {100 * group.test.mean:.2f} ± {100 * group.test.deviation:.2f} % " in text


def test_gathered_the_toy_is_one_file_for_each_study_that_runs_and_reports_find(toy, tmp_path):
    results = Path(shutil.copytree(toy.results, tmp_path / "results"))
    told = toy.call("gather", "--results", results)
    for name, count in {"toy": 16, "toy-wide": 2}.items():
        assert f"{results / name}.jsonl: {count}" in told
    assert "Finished before, not run again: 16." in toy.run("toy", out=results)
    assert "Finished before, not run again: 2." in toy.run("toy-wide", out=results)
    assert {file.name for file in results.rglob("*.jsonl")} == {"toy.jsonl", "toy-wide.jsonl"}, "nothing was run"
    toy.call("report", "--results", results, "--out", tmp_path / "again")
    assert {file.name for file in (tmp_path / "again").iterdir()} == {file.name for file in toy.out.iterdir()}
    for file in toy.out.iterdir():
        again = (tmp_path / "again" / file.name).read_bytes()
        assert again.replace(str(results).encode(), str(toy.results).encode()) == file.read_bytes(), file.name


def test_what_is_only_drawn_has_its_command(toy, tmp_path):
    told = toy.call("run", "sketch", "--out", tmp_path / "new")
    files = {tmp_path / "new" / f"sketch.{form}" for form in ("png", "svg")}
    for expected in ("sketch  a line, drawn", "A line has two ends.", *map(str, files)):
        assert expected in told
    assert {*(tmp_path / "new").iterdir()} == files
