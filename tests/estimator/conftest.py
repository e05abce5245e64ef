"""Models, tables and folders that several tests use; each takes a fraction of a second."""

import os
import tarfile
from pathlib import Path

import pytest

from patients import X, quick, write_tables
from phased.classifier import Classifier
from phased.data import encode
from phased.estimator import PhasedClassifier, PhasedRegressor
from recordings import network, recording

OPTIONS = {"units": 8, "batch_size": 16, "random_state": 0}


@pytest.fixture(scope="session")
def classifier():
    """A classifier of two classes."""
    return quick(units=8, epochs=4)


@pytest.fixture(scope="session")
def of_three():
    """A classifier of three classes with names."""
    return PhasedClassifier(epochs=2, **OPTIONS).fit(X, ["a", "b", "c"] * 20)


@pytest.fixture(scope="session")
def regressor():
    """A regressor of a number per step."""
    return PhasedRegressor(epochs=2, **OPTIONS).fit(X, X.time * 10.0)


@pytest.fixture(scope="session")
def works(call):
    """Call a command that must succeed."""

    def checked(*arguments):
        result = call(*arguments)
        assert result.exit_code == 0, result.output
        return result

    return checked


@pytest.fixture(scope="session")
def folder(tmp_path_factory, works):
    """Inputs and models of commands; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("commands")
    write_tables(folder)
    (folder / "rec.bin").write_bytes(encode(recording(50)))
    Classifier.of(network()).save(folder / "events")
    table, labels = folder / "t.csv", folder / "l.csv"
    made = works("fit", table, "--labels", labels, "--unit", "h", "--device", "cpu", "--epochs", "2", "--out", folder / "m")
    assert "held out" in made.stdout
    return folder


@pytest.fixture(scope="session")
def physionet(tmp_path_factory) -> Path:
    """PhysioNet 2012 set a, unpacked; the test is skipped where it is not."""
    archive = Path(os.environ.get("PHASED_DATA") or "nowhere") / "physionet2012" / "set-a.tar.xz"
    if not archive.is_file():
        pytest.skip("PHASED_DATA is not set, or has no physionet2012: no real data")
    folder = tmp_path_factory.mktemp("physionet")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder
