"""The code of the guide to lip reading runs, as a reader would type it."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from phased_lab.clips import WORDS
from phased_lab.lipreader import Config, LipReader, Scaling, Timing
from phased_lab.lipreader.network import phased_network
from speaking import made_up

GUIDE = Path(__file__).parents[3] / "docs" / "lipreading.md"


@pytest.mark.skipif(not GUIDE.exists(), reason="the package was installed without its documents")
def test_the_code_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    clip = made_up(1)
    config = Config((4, 4, 4), 2, True, 100, Scaling(torch.zeros(39), torch.ones(39)), Timing.of(clip.sentence.spans[None]))
    LipReader.of(config, phased_network((4, 4, 4), 2, len(WORDS), normalised=True).state_dict()).save(tmp_path / "FOLDER")
    monkeypatch.setattr("phased_lab.clips.prepare_clip", lambda path, alignment=None: clip)
    (code,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(code, str(GUIDE), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert np.all([line.split()[4] in WORDS for line in lines])
