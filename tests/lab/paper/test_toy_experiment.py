"""A new experiment is a new file, and nothing else: the one in `toy.py` is trained, reported and gathered."""

import html
import json
import re
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
from phased_lab.report import markdown
from phased_lab.report.groups import groups, main
from phased_lab.runs import catalogue, sweep
from phased_lab.runs.folder import read

TOY = Path(__file__).with_name("toy.py")
DRAWN = ("bars", "learning", "updates", "gates", "raster")
PICTURES = {f"{key}-{kind}.{form}" for key in ("toy", "toy-quick") for kind in DRAWN for form in ("png", "svg")}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, one_worker: Any) -> Iterator[SimpleNamespace]:
    """The toy as a file of the package, the command, and a folder with the toy's results at both scales."""
    place, results = tmp_path_factory.mktemp("toy"), tmp_path_factory.mktemp("results")
    shutil.copy(TOY, place)
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})

    def call(*arguments: object, code: int = 0) -> str:
        result = runner.invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return str(result.output)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phased_lab.paper, "__path__", [*phased_lab.paper.__path__, str(place)])
        patch.setattr(sweep, "connected", lambda *_: nullcontext(one_worker))
        catalogue.experiments.cache_clear()
        told = [
            call("run", *arguments, "--seeds", 2, "--device", "cpu", "--out", results)
            for arguments in (("toy", "--scale", "quick"), ("toy", "--scale", "paper"), ("toy-wide",))
        ]
        yield SimpleNamespace(call=call, results=results, told=told)
    del sys.modules["phased_lab.paper.toy"]
    del phased_lab.paper.toy
    catalogue.experiments.cache_clear()


@pytest.fixture
def results(toy: SimpleNamespace, tmp_path: Path) -> Path:
    """The toy's results, for a test of its own."""
    return Path(shutil.copytree(toy.results, tmp_path / "results"))


def words(page: str) -> str:
    """What a reader sees of a page, without charts and scripts."""
    visible = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", visible)))


def test_the_toy_is_in_the_list_and_its_help_has_its_options(toy):
    lines = {line.split()[0]: line for line in toy.call("run").splitlines() if line.strip()}
    assert "is a number positive?" in lines["toy"]
    assert "the same with more units" in lines["toy-wide"]
    assert "a line, drawn" in lines["sketch"]
    told = toy.call("run", "toy", "--help")
    assert "--noise" in told
    assert "How loud it is around." in told
    assert "--noise" not in toy.call("run", "sketch", "--help")


def test_the_toys_runs_are_recorded_where_they_belong(toy):
    assert "toy-even-phased-leak0-seed1-quick" in toy.told[0]
    lines = [json.loads(file.read_text()) for file in (toy.results / "toy").glob("*.jsonl")]
    assert len(lines) == 2 * (2 * 2 * 4) + 2
    assert {line["schema"] for line in lines} == {2}
    places = {(line["study"], line["condition"], line["model"], line["variant"]) for line in lines}
    leaks = ("leak 0", "leak 0.001", "leak 0.01")
    assert places == {
        *(("toy", condition, "phased", leak) for condition in ("even", "uneven") for leak in leaks),
        *(("toy", condition, "average", "") for condition in ("even", "uneven")),
        ("toy-wide", "even", "phased", "9 units"),
    }
    for line in lines:
        task = {"name": "Numbers", "condition": line["condition"], "noise": 0.1, "features": 1, "classes": 2}
        assert line["settings"]["task"] == task
        assert ("gates" in line) == (line["model"] == "phased")
        command = f"phased run {line['study']} --scale {line['scale']} --seeds {line['seed'] + 1} --only "
        assert line["command"].startswith(command)


def test_the_toys_option_makes_runs_of_its_own(toy, tmp_path):
    arguments = ("--scale", "quick", "--seeds", 1, "--only", "*even-average-*", "--device", "cpu", "--out", tmp_path / "results")
    toy.call("run", "toy", "--noise", "high", *arguments)
    (line,) = (json.loads(file.read_text()) for file in tmp_path.rglob("toy-even-*.jsonl"))
    assert (line["data"], line["settings"]["task"]["noise"]) == ("high", 1.0)
    assert line["command"] == "phased run toy --noise high --scale quick --seeds 1 --only toy-even-average-high-seed0-quick"
    told = toy.call("run", "toy", "--noise=deafening", *arguments, code=1)
    assert "noise must be one of 'low', 'high', got 'deafening'" in told
    toy.call("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    assert "numbers in noise" in words((tmp_path / "out" / "report.html").read_text())
    assert {file.stem for file in (tmp_path / "out").glob("*.png")} == {"toy-quick-high-bars", "toy-quick-high-learning"}


@pytest.fixture(scope="module")
def reported(toy: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reported") / "new"
    toy.call("report", "--results", toy.results, "--out", out)
    return out


def test_the_page_has_a_section_of_the_toy_in_its_own_words_and_numbers(toy, reported):
    page = (reported / "report.html").read_text()
    text = words(page)
    for expected in (
        "Fig. 99: Signs of numbers",
        "What the paper finds: numbers have signs.",
        "Gated toy, leak 0.001",
        "Average of a toy",
        "Gated toy, 9 units",
        "quiet numbers",
        "a first look, not a reproduction",
        "every step",
        "87.5",
        "phased run toy --scale paper --seeds 5",
    ):
        assert expected in text, expected
    for expected in ("a sample every second", "a sample now and then"):
        assert expected in page, "in its charts"
    found = [group for group in groups(read(toy.results).records) if group.scale == "paper"]
    assert len(found) == 2 * 4 + 1
    for group in found:
        assert f"{group.label} {100 * group.test.mean:.2f} ± {100 * group.test.deviation:.2f} % " in text
    for key in ("toy", "toy-quick"):
        for chart in DRAWN:
            assert f'id="{key}-{chart}"' in page
    assert "#123456" in page
    assert page.index("Signs of numbers") < page.index("Frequency discrimination"), "in the order of their places"


def test_the_tables_of_the_documents_have_the_toy(toy):
    tables = markdown.tables(toy.results)
    shown = main([group for group in groups(read(toy.results).records) if group.scale == "paper"])
    lines = tables["toy"].splitlines()
    assert len(lines) == 2 + len(shown) == 2 + 8
    for group, line in zip(shown, lines[2:], strict=True):
        assert f"| {'every second' if group.condition == 'even' else 'now and then'} | {group.label} |" in line
        assert f"| {100 * group.test.mean:.2f} ± {100 * group.test.deviation:.2f} % |" in line
    assert "87.5 %" in tables["toy"]
    (wide,) = tables["beyond toy"].splitlines()[2:]
    assert "Gated toy, 9 units" in wide
    assert tables["leak"].count("| toy, ") == 2 * 2


def test_gathered_the_toy_is_one_file_that_runs_and_reports_find(toy, results, reported, tmp_path):
    told = toy.call("gather", "--results", results)
    assert {file.name for file in results.rglob("*.jsonl")} == {"toy.jsonl", "toy-wide.jsonl"}
    assert f"{results / 'toy.jsonl'}: 32" in told
    assert f"{results / 'toy-wide.jsonl'}: 2" in told
    for arguments, count in ((("toy", "--scale", "quick"), 16), (("toy",), 16), (("toy-wide",), 2)):
        told = toy.call("run", *arguments, "--seeds", 2, "--device", "cpu", "--out", results)
        assert f"Finished before, not run again: {count}." in told
    assert len(list(results.rglob("*.jsonl"))) == 2, "nothing was run"
    toy.call("report", "--results", results, "--out", tmp_path / "again")
    assert {file.name for file in (tmp_path / "again").iterdir()} == {"report.html", *PICTURES}
    for file in reported.iterdir():
        again = (tmp_path / "again" / file.name).read_bytes()
        assert again.replace(str(results).encode(), str(toy.results).encode()) == file.read_bytes(), file.name


def test_what_is_only_drawn_has_its_command(toy, tmp_path):
    told = toy.call("run", "sketch", "--out", tmp_path / "new")
    files = [str(tmp_path / "new" / f"sketch.{form}") for form in ("png", "svg")]
    for expected in ("sketch  a line, drawn", "A line has two ends.", *files):
        assert expected in told
    assert {file.name for file in (tmp_path / "new").iterdir()} == {"sketch.png", "sketch.svg"}


def test_the_other_experiments_are_as_they_were(toy):
    others = "gate memory schedule frequency superimposed adding camera saccades nmnist lipreading"
    assert [name for name in catalogue.experiments() if name != "sketch"] == ["toy", *others.split()]
