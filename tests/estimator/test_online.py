"""A sequence event by event: the batch's numbers, its state as bytes, and every event that is refused."""

import copy
import math

import numpy as np
import pytest

from patients import X, follow, known, measured, quick
from phased.estimator import Events, PhasedClassifier, PhasedRegressor
from phased.ops.native import MISSING


@pytest.mark.parametrize("options", [{"cell": "phased_gru"}, {"updates": 0.05}], ids=["phased_gru", "few updates"])
def test_the_last_answer_is_that_of_the_batch(options):
    """tests/estimator/test_hostile.py has the other kinds of models."""
    model = quick(PhasedRegressor, **options)
    answers = [follow(model, X, sequence)[-1] for sequence in range(60)]
    assert np.allclose(answers, model.predict(X), atol=1e-5 * model.spread_)


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize("name", ["classifier", "of_three", "regressor"])
def test_without_the_compiled_core_the_numbers_are_the_same_also_where_it_began_the_sequence(name, request):
    compiled = request.getfixturevalue(name)
    model, events, expected = copy.deepcopy(compiled), measured(X, 3), follow(compiled, X, 3)
    assert compiled._shared.layer.native is not None
    model._shared = None
    model.network_.rnn.backend = "reference"
    assert np.allclose(follow(model, X, 3), expected, rtol=1e-6, atol=1e-6)
    assert model._shared.layer.native is None
    half = len(events) // 2
    first = compiled.online(static=known(X, 3))
    for time, values in events[:half]:
        first.push(time, values)
    second = model.online(state=first.dump())
    assert np.allclose([second.push(time, values) for time, values in events[half:]], expected[half:], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "time, values, error, message",
    [
        (0.5, {"HR": 80.0}, ValueError, "time must not be before that of the last event, 1 h, got 0.5 h"),
        (2**53 + 2, {}, ValueError, r"time must be from -2\*\*53 to 2\*\*53, got 9.0072e\+15 for this event"),
        (True, {}, TypeError, "time must be a number of h, got bool"),
        (1e15, {}, ValueError, "time must be at most .* after the first step, got 1e.15 for this event. Check the unit"),
        (np.uint64(2**63 + 5), {}, ValueError, r"time must be from -2\*\*53 to 2\*\*53"),
        (2.0, {"HR": 10**400}, ValueError, "HR must be finite, got inf at time 2.0"),
        (2.0, {"HR": 1e308}, ValueError, r"HR must be from -1e\+300 to 1e\+300, got 1e\+308 at time 2.0. Change its unit"),
        (math.nan, {}, ValueError, "time must be finite, got nan"),
        ("2", {}, TypeError, "time must be a number of h, got str"),
        (2.0, {"Lactate": 1.0}, ValueError, "variables must be known to the model, 'HR', 'GCS', 'Temp', got 'Lactate'"),
        (2.0, {"HR": "80"}, TypeError, "HR must be a number, got str"),
        (2.0, {"HR": None}, TypeError, "HR must be a number, got NoneType"),
        (2.0, {"GCS": 15, "HR": math.nan}, ValueError, "HR must be finite, got nan at time 2.0"),
        (2.0, [1, 2], TypeError, "values must be a dict of names and numbers"),
        (np.datetime64("2024-01-01"), {}, TypeError, "For dates, pass the time since the first event"),
    ],
)
def test_a_wrong_event_is_refused_and_changes_nothing(classifier, time, values, error, message):
    online, other = classifier.online(), classifier.online()
    for sequence in (online, other):
        sequence.push(1.0, {"HR": 77.0})
    with pytest.raises(error, match=message):
        online.push(time, values)
    assert online.push(3.0, {"Temp": 38.0}) == other.push(3.0, {"Temp": 38.0})


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"static": {"Sex": 1}}, ValueError, "static must be known to the model, 'Age', 'ICU', got 'Sex'"),
        ({"static": {"Age": "old"}}, TypeError, "Age must be a number, got str"),
        ({"static": {"Age": math.nan}}, ValueError, "Age must be finite"),
        ({"static": {"Age": -1e308}}, ValueError, r"Age must be from -1e\+300 to 1e\+300, got -1e\+308 for this sequence"),
        ({"static": [1]}, TypeError, "static must be a dict of names and numbers"),
        ({"state": lambda: quick(units=5).online().dump()}, ValueError, "state must be of this model"),
        ({"state": lambda: quick(units=8, epochs=4).online().dump()[:-5]}, ValueError, "cut off or damaged"),
        ({"static": {"Age": 50}, "state": lambda: quick(units=8, epochs=4).online().dump()}, ValueError, "Leave out static"),
    ],
)
def test_a_wrong_static_variable_or_state_is_refused(classifier, given, error, message):
    with pytest.raises(error, match=message):
        classifier.online(**{name: value() if callable(value) else value for name, value in given.items()})


def test_a_plain_layer_and_a_network_of_another_dtype_have_no_online_sequences(classifier):
    with pytest.raises(ValueError, match="need a phased layer"):
        quick(cell="gru").online()
    model = copy.deepcopy(classifier)
    model._shared = None
    model.network_.double()
    with pytest.raises(ValueError, match=r"need a float32 network, got torch.float64. Call network_.float\(\)."):
        model.online()


def test_marks_and_text_are_pushed_as_they_are_in_the_table_of_the_training(tmp_path):
    number = np.arange(40).repeat(4)
    table = {"id": number, "time": np.tile(np.arange(4), 40), "HR": np.arange(160.0), "Height": 150.0 + number}
    table |= {"state": ["up", "down", "up", "rare"] * 40, "sex": np.where(number % 3, "f", "m")}
    table["state"][3::4] = [f"text {each}" for each in range(40)]
    read = Events.read(table, unit="h", static=["Height", "sex"], missing={"Height": -1, "HR": [-1, -2]})
    assert read.settings.levels == {"state": ("down", "up", "other"), "sex": ("f", "m")}
    model = PhasedClassifier(units=6, epochs=2, random_state=0).fit(read, read.ids % 2)
    model.save(tmp_path)
    new = {"id": [1] * 3, "time": [0.5, 1.5, 1.5], "HR": [70, -2, None], "state": [None, "down", "unseen"]}
    events = Events.read(new | {"sex": ["m"] * 3, "Height": [-1] * 3}, like=read)
    expected = model.predict_proba(events)[0, 1]
    plain = Events.of([[0.5]], [[-1.0]], variables=["HR"], static=[[-1.0]], statics=["Height"], unit="h")
    for each in (model, PhasedClassifier.load(tmp_path)):
        assert abs(each.predict_proba(plain)[0, 1] - each.online().push(0.5, {})) < 1e-5
        sequence, other = each.online(static={"sex": "m ", "Height": -1}), each.online(static={"sex": "m"})
        assert sequence.push(0.5, {"HR": 70}) == other.push(0.5, {"HR": 70})
        assert sequence.push(1.5, {"HR": -2.0, "state": "down"}) == other.push(1.5, {"state": "down"})
        sequence = each.online(state=sequence.dump())
        with pytest.raises(TypeError, match="state must be text, such as 'down', got 3"):
            sequence.push(1.5, {"state": 3})
        with pytest.raises(ValueError, match="known to the model, 'HR', 'state', got 'State'"):
            sequence.push(1.5, {"State": "up"})
        assert abs(sequence.push(1.5, {"state": "unseen"}) - expected) < 1e-5
        with pytest.raises(TypeError, match="sex must be text"):
            each.online(static={"sex": None})
