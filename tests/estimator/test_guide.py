"""The code of docs/estimator.md runs as it stands, in order."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "estimator.md"


def test_the_code_of_the_guide_runs_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert 0 < names["risk"] < 1
    assert names["model"].report_.scores["auroc"] > 0.8
    assert {"mortality", "set-a.csv", "outcomes.csv"} <= {path.name for path in tmp_path.iterdir()}
    assert "periods" in capsys.readouterr().out
