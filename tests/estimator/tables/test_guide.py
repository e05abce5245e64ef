"""The code of the guide runs, block after block."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "tables.md"


def test_every_python_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) == text.count("```python") > 0
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "guide"}
    for block in blocks:
        code = "\n" * text.count("\n", 0, block.start() + 1) + block.group(1)  # a traceback then names the page's own line
        exec(compile(code, str(GUIDE), "exec"), namespace)
    assert "2 sequences, 4 steps, 5 measurements" in capsys.readouterr().out
