"""Tables that tests write, and the real ones of PHASED_DATA."""

import os
import tarfile
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


@pytest.fixture(scope="session")
def physionet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PhysioNet 2012 set a, unpacked; the test is skipped where it is not."""
    data = os.environ.get("PHASED_DATA")
    archive = Path(data or "") / "physionet2012" / "set-a.tar.xz"
    if not data or not archive.is_file():
        pytest.skip("PHASED_DATA is not set, or has no physionet2012: no real data")
    folder = tmp_path_factory.mktemp("physionet")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder
