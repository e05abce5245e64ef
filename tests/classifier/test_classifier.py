"""The classifier computes what its network computes, however the events come, and says what it cost."""

import tracemalloc
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import phased
from phased import PhasedGRU, PhasedLSTM
from phased.classifier import About, Classifier, EventEmbedding
from phased.classifier import session as sessions
from phased.data.recordings import Recording, Sensor
from phased.learn import Batch, Readout
from phased_lab.runs.baselines import Baseline
from recordings import network, recording

READ = [{}, {"mean": True}, {"mean": True, "hidden": 7}]  # by the last layers


def probabilities(model, events):
    """What the network itself says after the last event."""
    address, time = torch.from_numpy(events.address).unsqueeze(1), torch.from_numpy(events.time / 1000).unsqueeze(1)
    with torch.no_grad():
        return model(Batch.of(address, time, torch.tensor([len(events)]), torch.tensor([0])))[0].softmax(-1).numpy()


@pytest.mark.parametrize("gate", ["triangle", "square"])
@pytest.mark.parametrize("cell", [{"cell": PhasedLSTM}, {"cell": PhasedGRU}, {"peephole": True}, {"bias": False, "outputs": 3}])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("read", READ)
def test_it_computes_what_the_network_computes_in_eval_also_from_its_folder(cell, layers, gate, read, tmp_path):
    model, events = network(layers=layers, gate=gate, leak=0.001, **cell, **read), recording()
    made = Classifier.of(model, classes="abcdefghij"[: cell.get("outputs", 10)], about=About(date="2026-01-31"))
    made.save(tmp_path)
    assert Classifier.load(tmp_path).config == made.config
    answer = Classifier.load(tmp_path).classify(events)
    np.testing.assert_allclose(answer.probabilities, probabilities(model, events), rtol=1e-4)
    assert answer.label == "abcdefghij"[answer.probabilities.argmax()]
    assert answer.confidence == answer.probabilities.max()
    assert answer.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize("read", READ)
def test_parts_and_single_events_give_the_answer_of_the_whole(monkeypatch, read):
    monkeypatch.setattr(sessions, "CHUNK", 64)
    classifier, events = Classifier.of(network(**read)), recording()
    whole = classifier.classify(events).probabilities
    session = classifier.session()
    for begin, end in ((0, 1), (1, 1), (1, 200), (200, 490)):
        session.run(events.part(begin, end))
    for x, y, polarity, t in zip(*(v[490:] for v in (events.x, events.y, events.polarity, events.time)), strict=True):
        last = session.push(x, y, polarity, t)
    np.testing.assert_allclose(last, whole, rtol=1e-6)
    assert np.array_equal(last, session.probabilities)


@pytest.mark.parametrize("chunk", [7, 10_000])
@pytest.mark.parametrize("read", READ)
def test_the_probabilities_over_time_are_those_after_the_events_before_each_moment(chunk, read, monkeypatch):
    monkeypatch.setattr(sessions, "CHUNK", chunk)
    classifier, events = Classifier.of(network(**read)), recording(60)
    moments = list(classifier.follow(events, every=5.0))  # some without an event between them
    last = events.time[-1] / 1000
    first = events.time[0] / 1000 // 5 + 1
    assert [moment.time for moment in moments] == [*np.arange(5 * first, last, 5), last]
    for moment in moments[:-1]:
        before = events.part(0, int((events.time < 1000 * moment.time).sum()))
        np.testing.assert_allclose(moment.probabilities, classifier.classify(before).probabilities, rtol=1e-6)
    assert np.array_equal(moments[-1].probabilities, classifier.classify(events).probabilities)


def test_a_long_recording_needs_little_memory_beyond_its_own():
    events = recording(400_000)
    session = Classifier.of(network()).session()
    tracemalloc.start()
    try:
        session.run(events)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("layers", [1, 2])
def test_the_updates_are_those_of_the_layer(layers):
    model, events = network(layers=layers, period=phased.LogUniform(1, 200), shift=None), recording()
    answer = Classifier.of(model).classify(events)
    assert answer.updates == int(phased.updates(model.rnn, torch.from_numpy(events.time / 1000)).sum())
    assert answer.possible == 500 * 12 * layers
    assert answer.events == 500
    assert answer.seconds > 0


@pytest.mark.parametrize("event", [(34, 0, 1, 0), (0, 34, 1, 0), (-1, 0, 1, 0), (0, 0, 2, 0)])
def test_an_event_outside_the_sensor_changes_nothing(event):
    session = Classifier.of(network()).session()
    before = session.push(3, 4, 1, 10)
    with pytest.raises(ValueError, match=r"x must be in \[0, 34\)"):
        session.push(*event)
    assert np.array_equal(session.probabilities, before)


def test_time_must_not_go_backwards():
    session = Classifier.of(network()).session()
    session.push(3, 4, 1, 10)
    cure = r"got 9 us after 10 us, the last event of the session\. Sort the events, or begin another session"
    with pytest.raises(ValueError, match=f"^time must not go backwards, {cure}"):
        session.push(3, 4, 1, 9)
    early = Recording(np.array([3]), np.array([4]), np.array([True]), np.array([9]))
    with pytest.raises(ValueError, match=f"^event 0: time must not go backwards, {cure}"):
        session.run(early)


@pytest.mark.parametrize("read", READ)
def test_a_run_takes_all_events_or_none(monkeypatch, read):
    monkeypatch.setattr(sessions, "CHUNK", 64)
    classifier, events = Classifier.of(network(**read)), recording(500)
    session = classifier.session()
    before = session.run(events.part(0, 100))
    rest = events.part(100, 500)
    time = rest.time[300]
    rest.time[300] = 0  # after it was checked
    with pytest.raises(ValueError, match="must not go backwards"):
        session.run(rest)
    assert np.array_equal(session.probabilities, before)
    rest.time[300] = time
    assert np.array_equal(session.run(rest), classifier.classify(events).probabilities)


def test_times_beyond_those_tested_are_answered_with_one_warning_if_they_are_known():
    tested, untested = (Classifier.of(network(), about=About(longest=longest)) for longest in (340.0, None))
    late = recording(duration=3_000_000)
    session = tested.session()
    with pytest.warns(UserWarning, match="go beyond 340 ms"):
        session.run(late.part(0, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.push(0, 0, 0, 3_000_000)
        tested.classify(recording())
        assert untested.classify(late).events == 500


def test_times_in_another_unit_are_answered_with_a_warning():
    with pytest.warns(UserWarning, match="1,000 events last .* us: .* Multiply seconds by 1e6"):
        Classifier.of(network()).classify(recording(1000, duration=300))


def test_making_one_copies_the_parameters_and_draws_no_random_numbers():
    model, events = network(), recording()
    state = torch.random.get_rng_state()
    classifier = Classifier.of(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    before = classifier.classify(events).probabilities
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    assert np.array_equal(classifier.classify(events).probabilities, before)


def classify(events: Recording):
    return lambda: Classifier.of(network()).classify(events)


def follow(events: Recording, **options):
    """It raises at the call, not at the first moment."""
    return lambda: Classifier.of(network()).session().follow(events, **options)


def of(model: Callable[[], nn.Module], **options):
    return lambda: Classifier.of(model(), **options)


def embedded(layer: type[nn.Module], outputs: int | None):
    return of(lambda: Readout(layer(41, 4), outputs, encoder=EventEmbedding()))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (classify(recording(0)), ValueError, "at least one event, got none"),
        (lambda: Classifier.of(network()).follow(recording(0)), ValueError, "at least one event, got none"),
        (follow(recording(), every=0.0), ValueError, "every must be"),
        (follow(recording(sensor=Sensor(346, 260))), ValueError, r"of 34 x 34 pixels.*got 346 x 260\. Take a window"),
        (classify(recording(sensor=Sensor(346, 260))), ValueError, r"of 34 x 34 pixels.*got 346 x 260\. Take a window"),
        (of(lambda: PhasedLSTM(3, 4)), TypeError, "must be a phased.learn.Readout, got PhasedLSTM"),
        (of(lambda: Readout(PhasedLSTM(3, 4), 10)), TypeError, "must have an EventEmbedding"),
        (embedded(Baseline, 10), TypeError, "must have a PhasedLSTM or PhasedGRU"),
        (embedded(PhasedLSTM, None), ValueError, "must classify whole sequences"),
        (of(network, classes=["a", "b"]), ValueError, "classes must be 10 different names"),
    ],
)
def test_what_cannot_be_classified_or_be_a_classifier_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
