"""Tiny clips that tests write."""

from pathlib import Path
from typing import Any

import pytest

from phased_lab.clips import spelled
from phased_lab.clips.face import Box
from videos import write_alignment, write_video

SENTENCES = ("bbaf2n", "lgbx9s", "prizzp", "swwb1a", "bbaf3s")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True, scope="session")
def _needs() -> None:
    for name in ("av", "cv2"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'phased[video]'")


@pytest.fixture
def faces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detector that finds a face in made-up clips."""
    monkeypatch.setattr("phased_lab.clips.clip.find_face", lambda frames: Box(10.0, 5.0, 50.0))


@pytest.fixture
def folder(tmp_path: Path, faces: Any) -> Path:
    """Two speakers with five clips in all, in the layout of GRID."""
    for number, name in enumerate(SENTENCES):
        speaker = "s2" if number == 4 else "s1"
        write_video(tmp_path / "grid" / speaker / f"{name}.mkv")
        write_alignment(tmp_path / "grid" / "align" / speaker / f"{name}.align", " ".join(spelled(name) or ()))
    return tmp_path / "grid"
