"""The code of README and guides runs, block after block, as a reader would type it; tables are what was measured."""

import re
from pathlib import Path

import pytest

from phased_lab.bench import tables
from phased_lab.bench.benchmark import load, read
from phased_lab.paper.claims import claims
from phased_lab.report import markdown

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
    "physionet": ESTIMATOR,
    "estimators": ESTIMATOR,
    "widths": ESTIMATOR,
    "online": ESTIMATOR,
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
@pytest.mark.parametrize("name", tables.SHOWN)
def test_tables_of_times_are_those_of_the_committed_measurements(name: str) -> None:
    page = PAGES[name.partition("-")[0]]
    for made in tables.shown(BENCH, name):
        assert made in page.read_text(encoding="utf-8"), f"{page} should show:\n{made}"


@needs_results
def test_every_file_of_measurements_can_be_read() -> None:
    files = sorted(BENCH.glob("*.json"))
    assert {file.stem for file in files} >= set(tables.SHOWN)
    for file in files:
        assert load(file.stem.partition("-")[0]).tables(read(file))


@needs_results
def test_the_readme_has_the_measured_speed_and_the_results_beside_the_papers() -> None:
    text = README.read_text(encoding="utf-8")
    assert tables.summary(BENCH) in text
    assert claims(ROOT / "results") in text


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
    for name, made in markdown.tables(ROOT / "results").items():
        assert made in RESULTS.read_text(encoding="utf-8"), f"{RESULTS} should show, of {name}:\n{made}"
