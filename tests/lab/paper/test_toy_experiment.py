"""A new experiment is a new folder, and nothing else: a toy one is written, trained, reported and gathered."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import phased_lab.cli.run
import phased_lab.paper
from phased.cli.app import app
from phased_lab.report import markdown
from phased_lab.report.groups import groups, main
from phased_lab.runs import catalogue
from phased_lab.runs.folder import read

TOY = '''
"""A toy: is a number positive?"""

from phased_lab.runs.descriptor import Claim, Experiment, Kind, Option, Study, Words
from phased_lab.paper.toy import runs

EXPERIMENT = Experiment(
    name="toy",
    number="Fig. 99",
    title="Signs of numbers",
    place=7,
    studies=(
        Study("toy", "is a number positive?", runs.runs, {"noise": Option("How loud it is around.", ("low", "high"))}),
        Study("toy-wide", "the same with more units", runs.wide),
    ),
    models=(Kind("phased", "Gated toy"), Kind("average", "Average of a toy", "#123456")),
    conditions={"even": Words("a sample every second", "every second"), "uneven": Words("a sample now and then", "now and then")},
    data={"": "quiet numbers", "high": "numbers in noise"},
    chance=0.5,
    finding="numbers have signs.",
    claims={("phased", "even"): Claim(0.875, 0.875, epochs=2)},
    charts=("bars", "learning", "updates", "gates"),
)
'''

RUNS = '''
"""The runs of a toy."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run, check_scale
from phased.learn import Batch, Model, Training
from phased.learn.batch import generator, padded


@dataclass(frozen=True)
class Numbers:
    """The same number again and again, in noise."""

    condition: str
    noise: float = 0.1

    @property
    def features(self):
        return 1

    @property
    def classes(self):
        return 2

    def batch(self, seed, split, epoch, index, size):
        random = generator(0x70, seed, split, epoch, index, size)
        lengths = random.integers(3, 6, size, endpoint=True)
        shape = (lengths.max(), size)
        shown = random.normal(size=size)
        steps = np.ones(shape) if self.condition == "even" else 2 * random.random(shape)
        x = shown + self.noise * random.normal(size=shape)
        return padded(x[..., None], steps.cumsum(0), lengths, (shown > 0).astype(np.int64))


class Average(Model):
    """A network of its own kind, without gates."""

    def __init__(self, units):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, units), torch.nn.Tanh(), torch.nn.Linear(units, 2))

    def forward(self, batch: Batch):
        x, _, lengths = batch.samples
        return self.layers(x.sum(0) / lengths[:, None])


@dataclass(frozen=True)
class AverageConfig:
    """The numbers that make it."""

    model: str = "average"
    units: int = 3

    def settings(self):
        return {"model": self.model, "units": self.units}

    def build(self, task, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Average(self.units)


@dataclass(frozen=True)
class Figure99:
    """The numbers behind it."""

    leaks: tuple[float, ...] = (0.0, 0.001, 0.01)
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(units=4, period=(0.0, 1.0), ratio_on=0.5))
    training: Training = field(default_factory=lambda: Training(epochs=2, train=96, test=64, batch=16, rate=2e-2))


FIGURE = Figure99()


def runs(scale, seeds, noise="low"):
    """Both kinds of networks under both conditions."""
    check_scale(scale)
    return [run(scale, "toy", condition, network, words, tag, seed, noise) for seed in seeds for condition in ("even", "uneven")
            for network, words, tag in networks()]


def networks():
    gated = [(replace(FIGURE.network, leak=leak), f"leak {leak:g}", f"leak{leak:g}") for leak in FIGURE.leaks]
    return [*gated, (AverageConfig(), "", "")]


def wide(scale, seeds):
    """With more units."""
    check_scale(scale)
    network = replace(FIGURE.network, units=9, leak=0.0)
    return [run(scale, "toy-wide", "even", network, "9 units", "wide", seed, "low") for seed in seeds]


def run(scale, study, condition, network, words, tag, seed, noise):
    loud = noise == "high"
    return Run(
        "toy", condition, scale, Numbers(condition, 1.0 if loud else 0.1), network, replace(FIGURE.training, seed=seed),
        study=study, variant=words, tag="-".join(filter(None, (tag, "high" if loud else ""))),
        data="high" if loud else "", options={"noise": "high"} if loud else {},
    )
'''

SKETCH = '''
"""What is computed and drawn without training."""

from phased_lab.runs.descriptor import Drawn, Experiment


def draw(folder):
    (folder / "sketch.txt").write_text("a line")
    return Drawn([folder / "sketch.txt"], "A line has two ends.")


EXPERIMENT = Experiment(name="sketch", title="A sketch", about="a line, drawn", draw=draw)
'''

# The command in a process of its own, with one more place for experiments.
DRIVER = """
import sys
import phased_lab.paper
phased_lab.paper.__path__.append(sys.argv.pop(1))
from phased.cli import main
main()
"""
DRAWN = ("bars", "learning", "updates", "gates", "raster")
PICTURES = {f"{key}-{kind}.{form}" for key in ("toy", "toy-quick") for kind in DRAWN for form in ("png", "svg")}


def package(folder: Path, name: str, **modules: str) -> None:
    """Write a package with these modules."""
    (folder / name).mkdir(parents=True)
    for module, text in modules.items():
        (folder / name / f"{module}.py").write_text(text)


@contextmanager
def experiments_in(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Packages in this folder are experiments too; afterwards they are removed again."""
    before = set(sys.modules)
    patch.setattr(phased_lab.paper, "__path__", [*phased_lab.paper.__path__, str(folder)])
    catalogue.experiments.cache_clear()
    yield
    for name in sorted(set(sys.modules) - before):
        if name.startswith("phased_lab.paper."):
            del sys.modules[name]
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                delattr(sys.modules[parent], child)
    patch.undo()
    catalogue.experiments.cache_clear()


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder, empty at first, in which packages are experiments."""
    with experiments_in(tmp_path, monkeypatch):
        yield tmp_path


def fresh_command(patch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command, imported again as in a new process: it lists the experiments on import."""
    patch.setattr(phased_lab.cli, "run", phased_lab.cli.run)  # restored afterwards
    patch.delitem(sys.modules, "phased_lab.cli.run")
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The toy, its command, and a folder with its results at both scales."""
    place, results = tmp_path_factory.mktemp("toy"), tmp_path_factory.mktemp("results")
    package(place, "toy", __init__=TOY, runs=RUNS)
    package(place, "sketch", __init__=SKETCH)
    with pytest.MonkeyPatch.context() as patch, experiments_in(place, patch):
        call = fresh_command(patch)
        told = []
        for arguments in (("toy", "--scale", "quick"), ("toy", "--scale", "paper"), ("toy-wide",)):
            result = call("run", *arguments, "--seeds", 2, "--device", "cpu", "--out", results)
            assert result.exit_code == 0, result.output
            told.append(result.output)
        yield SimpleNamespace(place=place, call=call, results=results, told=told)


@pytest.fixture
def results(toy: SimpleNamespace, tmp_path: Path) -> Path:
    """The toy's results, for a test of its own."""
    return Path(shutil.copytree(toy.results, tmp_path / "results"))


def words(page: str) -> str:
    """What a reader sees of a page, without charts and scripts."""
    visible = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", visible)))


def test_the_toy_is_in_the_help_with_its_options(toy):
    told = " ".join(toy.call("run", "--help").output.replace("│", " ").split())
    assert "'toy' (is a number positive?)" in told
    assert "'toy-wide' (the same with more units)" in told
    assert "'sketch' (a line, drawn)" in told
    assert "--noise VALUE, for toy: How loud it is around. One of low, high." in told


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
        assert line["settings"]["task"] == {"name": "Numbers", "condition": line["condition"], "noise": 0.1}
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
    for expected in ("sketch  a line, drawn", "A line has two ends.", str(tmp_path / "new" / "sketch.txt")):
        assert expected in told.output
    assert (tmp_path / "new" / "sketch.txt").read_text() == "a line"


def test_the_toy_runs_in_a_process_of_its_own(toy, tmp_path):
    arguments = ["run", "toy", "--scale", "quick", "--seeds", "1", "--only", "*-even-average-*", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(toy.place), *arguments, "--out", str(tmp_path)],
        env={**os.environ, "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (there,) = tmp_path.rglob("*.jsonl")
    here = json.loads((toy.results / "toy" / there.name).read_text())
    assert [epoch["loss"] for epoch in json.loads(there.read_text())["curve"]] == pytest.approx(
        [epoch["loss"] for epoch in here["curve"]]
    )


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


# Folders that are not experiments, or that have a name twice


def descriptor(name: str, **more: str) -> str:
    """A package with a descriptor."""
    made = "".join(f", {key}={value}" for key, value in more.items())
    return f"from phased_lab.runs.descriptor import *\n\nEXPERIMENT = Experiment({name!r}, 'A twin'{made})\n"


NOTHING = "(Study({!r}, 'of nothing', lambda scale, seeds: []),)"
TWINS = {
    "two studies of one name": ("twin", descriptor("twin", studies=NOTHING.format("sparsity")), "sparsity"),
    "two drawn experiments of one name": ("twin", descriptor("gate", draw="print"), "gate"),
    "two trained experiments of one name": ("twin", descriptor("frequency", studies=NOTHING.format("mine")), "frequency"),
    "a trained and a drawn one of one name": ("twin", descriptor("frequency", draw="print"), "frequency"),
    "an experiment named like a study of another": ("twin", descriptor("sparsity", draw="print"), "sparsity"),
}


@pytest.mark.parametrize("folder, text, name", TWINS.values(), ids=TWINS.keys())
def test_two_of_one_name_are_a_clear_error(added, folder, text, name):
    package(added, folder, __init__=text)
    with pytest.raises(ValueError, match=f"names of experiments and studies must be different from each other, got {name} twice"):
        catalogue.experiments()


def test_a_folder_without_a_descriptor_and_a_module_are_no_experiments(added):
    before = set(catalogue.experiments())
    catalogue.experiments.cache_clear()
    package(added, "helpers", __init__="")
    (added / "alone.py").write_text(descriptor("alone", draw="print"))
    assert set(catalogue.experiments()) == before
