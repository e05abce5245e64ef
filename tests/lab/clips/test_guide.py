"""The guide's code runs."""

import re
from pathlib import Path

import pytest
import torch

from examples import run_page
from phased_lab import clips

GUIDE = Path(__file__).parents[3] / "docs" / "clips.md"


def test_the_code_of_the_guide_runs(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Made-up clips have no face, and a double of the detector does not reach other processes.
    alone = clips.prepare
    monkeypatch.setattr(clips, "prepare", lambda *given, **named: alone(*given, workers=1, **named))
    run_page(GUIDE, {"path/to/data": str(folder.parent)} | ({} if torch.cuda.is_available() else {'"cuda"': '"cpu"'}))
    printed = capsys.readouterr().out
    assert "5 of 5" in printed
    assert "5 clips\n" in printed
    assert "torch.Size([96, 48, 48])" in printed  # of four clips


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+)\(", GUIDE.read_text(encoding="utf-8")))))
def test_every_function_that_the_guide_calls_exists(name):
    assert hasattr(clips, name)
