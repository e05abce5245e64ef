"""Examples of docstrings and guides run as they stand; a public name has an example and the sections that readers look for."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import torch

import phased
import phased_lab
from examples import run_page
from phased_lab.clips import WORDS
from phased_lab.lipreader import Config, LipReader, Scaling, Timing
from phased_lab.lipreader.network import phased_network
from speaking import made_up

DOCS = Path(__file__).parent.parent / "docs"
SECTIONS = ["Args:", "Shape:", "Returns:", "Raises:", "Example:"]
METHODS = {
    "phased:PhasedLSTM": "forward save load from_lstm",
    "phased:PhasedGRU": "from_gru",
    "phased:Stream": "push run reset copy state time",
    "phased:Fusion": "forward timeline updates",
    "phased:FusionStream": "push run time state reset copy",
    "phased:Timeline": "of",
    "phased.classifier:Classifier": "load of save session classify follow",
    "phased.classifier:Session": "push run follow",
    "phased.classifier:EventEmbedding": "",
    "phased.classifier:crop": "",
    "phased.estimator:Normalise": "forward",
    "phased.estimator:NormaliseStream": "push shares",
    "phased.estimator:Shares": "",
    "phased.estimator:Events": "of read labels labelled describe dense",
}
NOT_CALLED = {"phased.classifier:Classifier", "phased.classifier:Session", "phased.estimator:Online"}
NOT_CALLED |= {"phased:PhasedGRU", "phased.estimator:PhasedRegressor"}  # which refer to the LSTM and to the classifier


def with_examples() -> Iterator[str]:
    """Modules that have examples."""
    for package in (phased, phased_lab):
        root = Path(package.__file__).parent
        for file in sorted(root.rglob("*.py")):
            if ">>> " in file.read_text(encoding="utf-8"):
                yield ".".join([package.__name__, *file.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")


@pytest.mark.parametrize("name", [*with_examples()])
def test_the_examples_of_a_module_run(name):
    module, report = importlib.import_module(name), []
    for example in doctest.DocTestFinder().find(module, name, globs={}):
        if not any("from phased" in step.source for step in example.examples):  # it has the names of its module
            example.globs = dict(vars(module))
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert report == [], "".join(report)


def public() -> dict[str, Any]:
    """What users call, by its name."""
    names = [f"phased:{name}" for name in phased.__all__]
    names += [name for kind, methods in METHODS.items() for name in (kind, *(f"{kind}.{method}" for method in methods.split()))]
    for kind in (resolve_name(f"phased.estimator:{name}") for name in ("PhasedClassifier", "PhasedRegressor", "Online")):
        names.append(f"phased.estimator:{kind.__name__}")
        for name, value in inspect.getmembers(kind):
            ours = getattr(inspect.unwrap(getattr(value, "fget", value)), "__module__", None) or ""
            if not name.startswith("_") and callable(value) | isinstance(value, property) and ours.startswith("phased."):
                names.append(f"phased.estimator:{kind.__name__}.{name}")
    return {name: resolve_name(name) for name in names if not name.endswith(".score")}


@pytest.mark.parametrize("name, value", [*public().items()])
def test_a_public_name_has_an_example_and_says_what_each_argument_is(name, value):
    text = inspect.getdoc(value)
    assert ">>> " in text
    sections = [line for line in text.splitlines() if line in SECTIONS]
    assert not name.startswith("phased:") or sections == sorted(sections, key=SECTIONS.index)
    takes = set() if isinstance(value, property) or name in NOT_CALLED else {*inspect.signature(value).parameters} - {"self"}
    assert not takes or "Args:" in sections
    assert [argument for argument in takes if f"    {argument}: " not in text] == []


def train_a_lip_reader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guide to lip reading finds: a model that was not trained, and a clip."""
    clip = made_up(1)
    config = Config((4, 4, 4), 2, True, 100, Scaling(torch.zeros(39), torch.ones(39)), Timing.of(clip.sentence.spans[None]))
    LipReader.of(config, phased_network((4, 4, 4), 2, len(WORDS), normalised=True).state_dict()).save(folder / "FOLDER")
    monkeypatch.setattr("phased_lab.clips.prepare_clip", lambda path, alignment=None: clip)


def of_fusion(names: dict[str, Any], printed: str) -> None:
    accuracies = names["accuracies"]
    assert accuracies.pop("all") > 0.9
    assert sorted(accuracies) == ["without heat", "without light", "without sound"]
    assert all(accuracy < 0.7 for accuracy in accuracies.values())
    assert names["stream"].time == max(time for time, _, _ in names["arriving"])


def of_estimator(names: dict[str, Any], printed: str) -> None:
    assert 0 < names["risk"] < 1
    assert names["model"].report_.scores["auroc"] > 0.8
    assert all(Path(name).exists() for name in ("mortality", "set-a.csv", "outcomes.csv"))
    assert "periods" in printed


def of_tables(names: dict[str, Any], printed: str) -> None:
    assert "2 sequences, 4 steps, 5 measurements" in printed


def of_lipreading(names: dict[str, Any], printed: str) -> None:
    assert [line.split()[4] in WORDS for line in printed.splitlines()] == [True] * 6


@pytest.mark.parametrize("shows", [of_fusion, of_estimator, of_tables, of_lipreading])
def test_a_guide_runs_from_top_to_bottom_and_shows_what_it_says(shows, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train_a_lip_reader(tmp_path, monkeypatch)
    shows(run_page(DOCS / f"{shows.__name__.removeprefix('of_')}.md"), capsys.readouterr().out)
