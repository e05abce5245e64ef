"""The parts of a model: recurrent network, random convolutions, or both. Answers online are those of a batch with each."""

import numpy as np
import pytest

from patients import follow, patients
from phased.estimator import PhasedClassifier, PhasedRegressor, choosing, estimator
from phased.estimator.network import MIX

X, Y = patients(60)
SMALL = {"units": 4, "epochs": 2, "random_state": 0}
TARGETS = {
    "two classes": (PhasedClassifier, Y),
    "three classes": (PhasedClassifier, np.arange(60) % 3),
    "numbers": (PhasedRegressor, np.random.default_rng(0).random(60)),
}


@pytest.fixture(params=MIX)
def part(request, monkeypatch):
    """Each part in turn, whatever the held-out sequences say."""
    every = choosing.parts
    monkeypatch.setattr(choosing, "parts", lambda *given: [each for each in every(*given) if each.part == request.param])
    return request.param


@pytest.mark.parametrize("targets", TARGETS)
def test_online_answers_are_those_of_a_batch_and_of_numpy(part, targets, tmp_path):
    kind, y = TARGETS[targets]
    model = kind(**SMALL).fit(X, y)
    assert model.report_.part == part
    answer = model._answer(X)
    wanted = answer[:, 1] if targets == "two classes" else answer
    for sequence in range(6):
        online = follow(model, X, sequence)
        np.testing.assert_allclose(online[-1], wanted[sequence], atol=1e-5)
        core, model._shared.core = model._shared.core, None
        np.testing.assert_allclose(follow(model, X, sequence), online, atol=1e-5)
        model._shared.core = core
    model.save(tmp_path)
    assert np.array_equal(kind.load(tmp_path)._answer(X), answer)


def test_without_the_recurrent_network_no_unit_is_updated(part):
    report = PhasedClassifier(**SMALL).fit(X, Y).report_
    assert (report.updates == 0) == (part == "convolutions")
    assert bool(report.periods) == (part != "convolutions")


def test_all_parts_are_tried_on_the_held_out_sequences_and_reported():
    report = PhasedClassifier(**SMALL).fit(X, Y).report_
    assert list(report.parts) == list(MIX)
    assert report.parts[report.part] == report.scores
    assert PhasedClassifier(**SMALL, convolutions=False).fit(X, Y).report_.part == "network"
    every_step = PhasedRegressor(**SMALL).fit(X, X.time * 2.0).report_
    assert list(every_step.parts) == ["network"]


def test_convolutions_find_a_shape_that_summaries_do_not_have():
    random = np.random.default_rng(0)
    times, noise = np.arange(60.0), random.normal(0, 0.1, (120, 60))
    rising = np.arange(120) % 2  # a saw tooth that rises slowly or falls slowly
    shape = (np.arange(60) + random.integers(0, 6, 120)[:, None]) % 6 / 6
    values = np.where(rising[:, None], shape, 1 - shape) + noise
    data = [(times, row[:, None]) for row in values]
    model = PhasedClassifier(**SMALL).fit(data[:80], rising[:80])
    assert model.report_.part != "network"
    assert model.score(data[80:], rising[80:]) > 0.95


def test_memory_of_a_sequence_with_convolutions_stays_within_bounds():
    random = np.random.default_rng(0)
    data = [(np.arange(40.0), random.normal(size=(40, 37)) + label) for label in [0, 1] * 20]
    model = PhasedClassifier(**SMALL).fit(data, [0, 1] * 20)
    sequence = model.online()
    sequence.push(0.0, {"x0": 1.0})
    assert len(sequence.dump()) < 40_000


def test_with_class_weights_there_are_no_convolutions():
    assert list(PhasedClassifier(**SMALL, class_weight="balanced").fit(X, Y).report_.parts) == ["network"]


def test_ctrl_c_while_convolutions_are_fitted_keeps_the_network(monkeypatch):
    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(choosing, "convolve", stopped)
    model = PhasedClassifier(**SMALL).fit(X, Y)
    assert (model.report_.interrupted, model.report_.part) == (True, "network")
    assert np.isfinite(model.predict_proba(X)).all()


def test_shares_of_a_batch_do_not_depend_on_the_other_sequences_in_it(part):
    model = PhasedClassifier(**SMALL).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X[7:20])[2], model.predict_proba(X)[9], atol=1e-6)


def test_the_answer_for_a_sequence_without_steps_does_not_depend_on_its_neighbours(part):
    events, y = patients(60, empty=True)
    model = PhasedClassifier(**SMALL).fit(events, y)
    empty = int(np.flatnonzero(events.lengths == 0)[0])
    alone, beside = model.predict_proba(events[[empty]])[0], model.predict_proba(events)[empty]
    np.testing.assert_allclose(alone, beside, atol=1e-6)


def test_ctrl_c_while_convolutions_are_fitted_to_all_sequences_keeps_those_of_the_training_sequences(monkeypatch):
    monkeypatch.setattr(choosing, "chosen", lambda tried: tried[-1])  # both
    uninterrupted = PhasedClassifier(**SMALL, refit=False).fit(X, Y)

    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(estimator, "convolve", stopped)
    model = PhasedClassifier(**SMALL, refit=False).fit(X, Y)
    assert (model.report_.interrupted, model.report_.part) == (True, "both")
    np.testing.assert_allclose(model.predict_proba(X), uninterrupted.predict_proba(X), atol=1e-6)
