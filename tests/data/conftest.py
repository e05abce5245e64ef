"""Recordings that tests write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from event_files import KINDS, SENSOR, write
from phased.data import Recording, encode
from recordings import recording


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., tuple[Path, Recording]]:
    """The writer of a file of one kind with a random recording: the file, and the recording."""

    def make(kind: str, events: int = 300, start: int = 1_000_000) -> tuple[Path, Recording]:
        name, options = KINDS[kind]
        made = recording(events, sensor=SENSOR, start=start)
        return write(tmp_path / name, made, **options), made

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small data set in the official layout: MNIST numbers 1 to 12 with the label number % 10, the test set with 5 of them."""
    for part, count in (("Train", 12), ("Test", 5)):
        for number in range(1, count + 1):
            path = tmp_path / "nmnist" / part / str(number % 10) / f"{number:05}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(recording(10 + number, seed=number)))
    return tmp_path / "nmnist"
