"""Tables that tests write."""

from pathlib import Path

import pytest

STAYS = {
    132539: "00:00,RecordID,132539\n00:00,Age,54\n00:00,Height,-1\n00:07,HR,73\n00:07,GCS,15\n25:37,HR,77\n",
    132540: "00:00,RecordID,132540\n00:00,Age,76\n00:00,Height,175.3\n00:42,HR,88\n01:11,HR,\n01:42,Temp,35.1\n01:42,HR,86\n",
    132541: "00:00,RecordID,132541\n00:00,Age,44\n00:00,Height,-1\n",
}


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    """Three stays in the layout of PhysioNet 2012: a file each; the last one has descriptors alone."""
    folder = tmp_path / "set-a"
    folder.mkdir()
    for number, lines in STAYS.items():
        (folder / f"{number}.txt").write_text("Time,Parameter,Value\n" + lines, encoding="utf-8")
    return folder
