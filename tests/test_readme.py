"""The README's code runs, from its first block to its last, as a reader would type it; its tables are what was measured."""

import re
from pathlib import Path

import pytest

from phased.bench import tables

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_every_python_block_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks, f"{README} shows no Python code"
    assert len(blocks) == len(re.findall(r"^\s*```\s*(?:python|py)\b", text, re.MULTILINE)), (
        "a block is spelt so that it is not run"
    )
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        first_line = text.count("\n", 0, block.start()) + 1
        code = "\n" * first_line + block.group(1)  # a traceback then names the README's own line
        exec(compile(code, str(README), "exec"), namespace)


@pytest.mark.parametrize("name", tables.TABLES)
def test_the_readmes_tables_are_those_of_the_committed_measurements(name: str) -> None:
    made = tables.read(README.parent / "results" / "bench")[name]
    assert made in README.read_text(encoding="utf-8"), f"{README} should show:\n{made}"
