"""The shipped model on real recordings of N-MNIST, where they are present."""

from phased.classifier import Classifier
from phased.data import read


def test_ninety_seven_of_a_hundred_real_recordings_are_classified_correctly(nmnist):
    classifier = Classifier.load()
    answers = {file: classifier.classify(read(file)) for file in sorted(nmnist.glob("Test/*/*.bin"))}
    wrong = [file.name for file, answer in answers.items() if answer.label != file.parent.name]
    assert len(wrong) <= 3 * len(answers) // 100, wrong
    for answer in answers.values():  # 110 units, open 5 % of the time
        assert 0.95 < answer.updates / answer.events / 5.5 < 1.05
