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

    def call(*arguments: object) -> Any:
        return runner.invoke(app, [str(argument) for argument in arguments])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phased_lab.paper, "__path__", [*phased_lab.paper.__path__, str(place)])
        patch.setattr(sweep, "connected", lambda *_: nullcontext(one_worker))
        catalogue.experiments.cache_clear()
        told = []
        for arguments in (("toy", "--scale", "quick"), ("toy", "--scale", "paper"), ("toy-wide",)):
            result = call("run", *arguments, "--seeds", 2, "--device", "cpu", "--out", results)
            assert result.exit_code == 0, result.output
            told.append(result.output)
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
    lines = {line.split()[0]: line for line in toy.call("run").output.splitlines() if line.strip()}
    for name, about in {
        "toy": "is a number positive?",
        "toy-wide": "the same with more units",
        "sketch": "a line, drawn",
    }.items():
        assert about in lines[name]
    told = toy.call("run", "toy", "--help").output
    assert "--noise" in told
    assert "How loud it is around." in told
    assert "--noise" not in toy.call("run", "sketch", "--help").output


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
        assert line["settings"]["task"] == {
            "name": "Numbers",
            "condition": line["condition"],
            "noise": 0.1,
            "features": 1,
            "classes": 2,
        }
        assert ("gates" in line) == (line["model"] == "phased")
        assert line["command"].startswith(
            f"phased run {line['study']} --scale {line['scale']} --seeds {line['seed'] + 1} --only "
        )


def test_a_second_run_skips_everything(toy, results):
    before = {file: file.read_bytes() for file in results.rglob("*") if file.is_file()}
    told = toy.call("run", "toy", "--scale", "quick", "--seeds", 2, "--device", "cpu", "--out", results)
    assert told.exit_code == 0, told.output
    assert "Finished before, not run again: 16." in told.output
    assert {file: file.read_bytes() for file in results.rglob("*") if file.is_file()} == before


def test_the_toys_option_makes_runs_of_its_own(toy, tmp_path):
    arguments = ("--scale", "quick", "--seeds", 1, "--only", "*even-average-*", "--device", "cpu", "--out", tmp_path / "results")
    told = toy.call("run", "toy", "--noise", "high", *arguments)
    assert told.exit_code == 0, told.output
    (line,) = (json.loads(file.read_text()) for file in tmp_path.rglob("toy-even-*.jsonl"))
    assert (line["data"], line["settings"]["task"]["noise"]) == ("high", 1.0)
    assert line["command"] == "phased run toy --noise high --scale quick --seeds 1 --only toy-even-average-high-seed0-quick"
    told = toy.call("run", "toy", "--noise=deafening", *arguments)
    assert told.exit_code == 1
    assert "noise must be one of 'low', 'high', got 'deafening'" in told.output
    told = toy.call("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    assert "numbers in noise" in words((tmp_path / "out" / "report.html").read_text())
    assert {file.stem for file in (tmp_path / "out").glob("*.png")} == {"toy-quick-high-bars", "toy-quick-high-learning"}


@pytest.fixture(scope="module")
def reported(toy: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reported") / "new"
    told = toy.call("report", "--results", toy.results, "--out", out)
    assert told.exit_code == 0, told.output
    return out


def test_the_report_draws_the_toys_figures(reported):
    assert {file.name for file in reported.iterdir()} == {"report.html", *PICTURES}


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
    assert told.exit_code == 0, told.output
    assert {file.name for file in results.rglob("*.jsonl")} == {"toy.jsonl", "toy-wide.jsonl"}
    assert f"{results / 'toy.jsonl'}: 32" in told.output
    assert f"{results / 'toy-wide.jsonl'}: 2" in told.output
    for arguments, count in ((("toy", "--scale", "quick"), 16), (("toy",), 16), (("toy-wide",), 2)):
        told = toy.call("run", *arguments, "--seeds", 2, "--device", "cpu", "--out", results)
        assert told.exit_code == 0, told.output
        assert f"Finished before, not run again: {count}." in told.output
    assert len(list(results.rglob("*.jsonl"))) == 2, "nothing was run"
    told = toy.call("report", "--results", results, "--out", tmp_path / "again")
    assert told.exit_code == 0, told.output
    assert {file.name for file in (tmp_path / "again").iterdir()} == {"report.html", *PICTURES}
    for file in reported.iterdir():
        again = (tmp_path / "again" / file.name).read_bytes()
        assert again.replace(str(results).encode(), str(toy.results).encode()) == file.read_bytes(), file.name


def test_what_is_only_drawn_has_its_command(toy, tmp_path):
    told = toy.call("run", "sketch", "--out", tmp_path / "new")
    assert told.exit_code == 0, told.output
    for expected in (
        "sketch  a line, drawn",
        "A line has two ends.",
        *(str(tmp_path / "new" / f"sketch.{form}") for form in ("png", "svg")),
    ):
        assert expected in told.output
    assert {file.name for file in (tmp_path / "new").iterdir()} == {"sketch.png", "sketch.svg"}


def test_the_other_experiments_are_as_they_were(toy):
    with_toy = list(catalogue.experiments())
    assert with_toy[0] == "toy"
    assert [name for name in with_toy if name not in {"toy", "sketch"}] == [
        "gate",
        "memory",
        "schedule",
        "frequency",
        "superimposed",
        "adding",
        "camera",
        "saccades",
        "nmnist",
        "lipreading",
    ]
