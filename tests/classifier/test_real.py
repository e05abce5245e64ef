"""The shipped model on real recordings of N-MNIST, where they are present."""

import os
from pathlib import Path

import pytest

from phased.classifier import Classifier
from phased.data import read

DATA = Path(os.environ.get("PHASED_DATA", "nowhere")) / "nmnist" / "Test"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="PHASED_DATA has no real recordings (nmnist/Test)")


def test_ninety_seven_of_a_hundred_real_recordings_are_classified_correctly():
    classifier = Classifier.load()
    files = sorted(DATA.glob("*/*.bin"))
    answers = {file: classifier.classify(read(file)) for file in files}
    wrong = [file.name for file, answer in answers.items() if answer.label != file.parent.name]
    assert len(wrong) <= 3 * len(files) // 100, wrong
    assert all(
        0.95 < answer.updates / answer.events / 5.5 < 1.05 for answer in answers.values()
    )  # 110 units, open 5 % of the time
