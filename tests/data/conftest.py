"""Recordings that tests write, and the real ones of PHASED_DATA."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from event_files import KINDS, SENSOR, write
from phased.data import NMNIST, Recording, Sensor, encode, find_mnist, find_nmnist

Maker = Callable[..., Recording]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def recorded() -> Maker:
    """The maker of random recordings."""

    def make(events: int = 50, seed: int = 0, sensor: Sensor = NMNIST, start: int = 0) -> Recording:
        random = np.random.default_rng(seed)
        x, y = (random.integers(0, size, events).astype(np.int32) for size in sensor)
        time = start + np.sort(random.integers(0, 300_000, events))
        return Recording(x, y, random.random(events) < 0.5, time, sensor)

    return make


@pytest.fixture
def written(tmp_path: Path, recorded: Maker) -> Callable[..., tuple[Path, Recording]]:
    """The writer of a file of one kind with a random recording: the file, and the recording."""

    def make(kind: str, events: int = 300, start: int = 1_000_000) -> tuple[Path, Recording]:
        name, options = KINDS[kind]
        recording = recorded(events, sensor=SENSOR, start=start)
        return write(tmp_path / name, recording, **options), recording

    return make


@pytest.fixture
def folder(tmp_path: Path, recorded: Maker) -> Path:
    """A small data set in the official layout: MNIST numbers 1 to 12 with the label number % 10, the test set with 5 of them."""
    for part, count in (("Train", 12), ("Test", 5)):
        for number in range(1, count + 1):
            path = tmp_path / "nmnist" / part / str(number % 10) / f"{number:05}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(recorded(10 + number, seed=number)))
    return tmp_path / "nmnist"


def _real(find: Callable[[], Path]) -> Path:
    """A folder in PHASED_DATA; the test is skipped if it is not there."""
    if not os.environ.get("PHASED_DATA"):
        pytest.skip("PHASED_DATA is not set: no real data")
    try:
        return find()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def nmnist() -> Path:
    """The folder with real recordings."""
    return _real(find_nmnist)


@pytest.fixture(scope="session")
def mnist() -> Path:
    """The folder with MNIST."""
    return _real(find_mnist)
