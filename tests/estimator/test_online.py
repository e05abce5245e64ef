"""A sequence event by event: the batch's numbers, its state as bytes, and every event that is refused."""

import copy
import math

import numpy as np
import pytest

from patients import known, measured, patients
from phased.estimator import Events, PhasedClassifier, PhasedRegressor
from phased.ops.core import MISSING

X, Y = patients()


def follow(model, events, sequence):
    """The answers after each event of a sequence."""
    online = model.online(static=known(events, sequence))
    return [online.push(time, values) for time, values in measured(events, sequence)]


def test_the_last_answer_is_the_batchs(classifier):
    batch = classifier.predict_proba(X)
    for sequence in range(len(X)):
        assert abs(follow(classifier, X, sequence)[-1] - batch[sequence, 1]) < 1e-5


def test_every_answer_is_the_batchs_for_the_events_so_far(of_three):
    longest = int(X.lengths.argmax())
    one = X[longest]
    for count, answer in enumerate(follow(of_three, X, longest), 1):
        part = Events.of(
            [one.time[:count]], [one.dense()[:count]], variables=X.variables, static=one.static, statics=X.statics, unit="h"
        )
        assert np.allclose(answer, of_three.predict_proba(part)[0], atol=1e-5)


def test_with_a_target_per_step_every_answer_is_that_of_its_step(regressor):
    batch = np.split(regressor.predict(X), X.offset[1:-1])
    spread = regressor.spread_
    for sequence in range(10):
        assert np.allclose(follow(regressor, X, sequence), batch[sequence], atol=1e-5 * spread)


@pytest.mark.parametrize("options", [{"cell": "phased_gru"}, {"updates": 0.05}])
def test_other_cells_and_budgets_agree_with_the_batch_too(options):
    model = PhasedRegressor(units=6, epochs=1, batch_size=16, random_state=0, **options).fit(X, np.arange(60.0))
    batch = model.predict(X)
    for sequence in range(0, 60, 7):
        assert abs(follow(model, X, sequence)[-1] - batch[sequence]) < 1e-5 * model.spread_


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize("name", ["classifier", "of_three", "regressor"])
def test_without_the_compiled_core_the_numbers_are_the_same(name, request):
    model = copy.deepcopy(request.getfixturevalue(name))
    expected = [np.ravel(answer) for answer in follow(model, X, 3)]
    assert model._shared.compiled is not None
    model._shared = None
    model.network_.rnn.backend = "reference"
    assert np.allclose([np.ravel(answer) for answer in follow(model, X, 3)], expected, rtol=1e-6, atol=1e-6)
    assert model._shared.compiled is None


def test_a_sequence_that_was_begun_with_the_compiled_core_continues_without_it(classifier):
    events, answers = measured(X, 3), follow(classifier, X, 3)
    half = len(events) // 2
    first = classifier.online(static=known(X, 3))
    for time, values in events[:half]:
        first.push(time, values)
    other = copy.deepcopy(classifier)
    other._shared = None
    other.network_.rnn.backend = "reference"
    second = other.online(state=first.dump())
    assert np.allclose([second.push(time, values) for time, values in events[half:]], answers[half:], atol=1e-6)


def test_sequences_of_a_model_do_not_disturb_each_other(classifier):
    chosen = [int(which) for which in np.argsort(-X.lengths)[:5]]
    expected = [follow(classifier, X, which) for which in chosen]
    together = [classifier.online(static=known(X, which)) for which in chosen]
    for step in range(int(X.lengths[chosen].min())):
        for number, which in enumerate(chosen):
            time, values = measured(X, which)[step]
            assert together[number].push(time, values) == expected[number][step]


def test_a_thousand_sequences_need_a_few_kilobytes_each(classifier):
    many = [classifier.online() for _ in range(1000)]
    for sequence in many:
        sequence.push(1.0, {"HR": 80.0})
    arrays = many[0]._sequence.arrays().values()
    assert sum(array.nbytes for array in arrays) < 4096
    assert len(many[0].dump()) < 4096
    assert len({id(sequence._shared) for sequence in many}) == 1


def test_a_dumped_sequence_continues_bit_for_bit(classifier, tmp_path):
    longest = int(X.lengths.argmax())
    expected = follow(classifier, X, longest)
    events = measured(X, longest)
    for cut in range(len(events)):
        first = classifier.online(static=known(X, longest))
        for time, values in events[:cut]:
            first.push(time, values)
        (tmp_path / "state").write_bytes(first.dump())
        second = classifier.online(state=(tmp_path / "state").read_bytes())
        assert second.time == first.time
        assert [second.push(time, values) for time, values in events[cut:]] == expected[cut:]


def test_the_state_of_another_model_or_a_damaged_one_is_refused(classifier, of_three):
    state = of_three.online().dump()
    with pytest.raises(ValueError, match="state must be of this model"):
        classifier.online(state=state)
    with pytest.raises(ValueError, match="cut off or damaged"):
        classifier.online(state=classifier.online().dump()[:-5])
    with pytest.raises(ValueError, match="Leave out static"):
        classifier.online(static={"Age": 50}, state=classifier.online().dump())


@pytest.mark.parametrize(
    "time, values, error, message",
    [
        (0.5, {"HR": 80.0}, ValueError, "time must not be before that of the last event, 1 h, got 0.5 h"),
        (2**53 + 2, {}, ValueError, r"time must be from -2\*\*53 to 2\*\*53, got 9.0072e\+15 for this event"),
        (True, {}, TypeError, "time must be a number of h, got bool"),
        (1e15, {}, ValueError, "time must be at most .* after the first step, got 1e.15 for this event. Check the unit"),
        (10**400, {}, ValueError, "time must be finite, got inf"),
        (np.uint64(2**63 + 5), {}, ValueError, r"time must be from -2\*\*53 to 2\*\*53"),
        (2.0, {"HR": 10**400}, ValueError, "HR must be finite, got inf at time 2.0"),
        (2.0, {"HR": 1e308}, ValueError, r"HR must be from -1e\+300 to 1e\+300, got 1e\+308 at time 2.0. Change its unit"),
        (math.nan, {}, ValueError, "time must be finite, got nan"),
        (math.inf, {}, ValueError, "time must be finite, got inf"),
        ("2", {}, TypeError, "time must be a number of h, got str"),
        (2.0, {"Lactate": 1.0}, ValueError, "variables must be known to the model, 'HR', 'GCS', 'Temp', got 'Lactate'"),
        (2.0, {"HR": "80"}, TypeError, "HR must be a number, got str"),
        (2.0, {"HR": None}, TypeError, "HR must be a number, got NoneType"),
        (2.0, {"GCS": 15, "HR": math.nan}, ValueError, "HR must be finite, got nan at time 2.0"),
        (2.0, {"HR": -math.inf}, ValueError, "HR must be finite, got -inf"),
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
    "static, error, message",
    [
        ({"Sex": 1}, ValueError, "static must be known to the model, 'Age', 'ICU', got 'Sex'"),
        ({"Age": "old"}, TypeError, "Age must be a number, got str"),
        ({"Age": math.nan}, ValueError, "Age must be finite"),
        ({"Age": -1e308}, ValueError, r"Age must be from -1e\+300 to 1e\+300, got -1e\+308 for this sequence"),
    ],
)
def test_a_wrong_static_variable_is_refused(classifier, static, error, message):
    with pytest.raises(error, match=message):
        classifier.online(static=static)


def test_a_plain_layer_has_no_online_sequences():
    model = PhasedClassifier(units=4, epochs=1, batch_size=16, cell="gru", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="need a phased layer"):
        model.online()


def test_a_network_of_another_dtype_is_refused(classifier):
    model = copy.deepcopy(classifier)
    model._shared = None
    model.network_.double()
    with pytest.raises(ValueError, match=r"need a float32 network, got torch.float64. Call network_.float\(\)."):
        model.online()


def test_marks_for_not_known_are_left_out_as_in_the_table_of_the_training(tmp_path):
    rows = [
        (str(n), t, name, value)
        for n in range(40)
        for t in range(4)
        for name, value in (("HR", 60.0 + n % 2 * 20), ("T", 37.0 + t))
    ]
    rows += [(str(n), 0, "Height", 150.0 + n) for n in range(40)]
    table = dict(zip(("id", "time", "variable", "value"), map(list, zip(*rows, strict=True)), strict=True))
    read = Events.read(table, unit="h", static=["Height"], missing={"Height": -1, "HR": [-1, -2]})
    model = PhasedClassifier(units=6, epochs=2, random_state=0).fit(read, read.ids.astype(int) % 2)
    model.save(tmp_path)
    for each in (model, PhasedClassifier.load(tmp_path)):
        marked, plain = each.online(static={"Height": -1}), each.online()
        for time, value in ((0.5, -1), (1.5, -2.0)):
            answer = marked.push(time, {"HR": value, "T": 37.0})
            assert answer == plain.push(time, {"T": 37.0})
        values = [[-1.0, 37.0], [-2.0, 37.0]]
        assert abs(each.predict_proba([([0.5, 1.5], values)])[0, 1] - answer) < 1e-5
        events = Events.of([[0.5, 1.5]], [values], variables=["HR", "T"], static=[[-1.0]], statics=["Height"], unit="h")
        assert abs(each.predict_proba(events)[0, 1] - answer) < 1e-5


def test_values_by_name_are_a_dict(classifier):
    sequence = classifier.online()
    with pytest.raises(TypeError, match="values must be a dict of names and numbers"):
        sequence.push(1.0, [1, 2])
    with pytest.raises(TypeError, match="static must be a dict of names and numbers"):
        classifier.online(static=[1])
    with pytest.raises(TypeError, match="For dates, pass the time since the first event"):
        sequence.push(np.datetime64("2024-01-01"), {})
    assert sequence.time is None


def test_text_is_pushed_as_it_is_in_the_table(tmp_path):
    number = np.arange(40).repeat(4)
    table = {"id": number, "time": np.tile(np.arange(4), 40), "HR": np.arange(160.0)}
    table |= {"state": ["up", "down", "up", "rare"] * 40, "sex": np.where(number % 3, "f", "m")}
    table["state"][3::4] = [f"text {each}" for each in range(40)]
    read = Events.read(table, unit="h")
    assert read.settings.levels == {"state": ("down", "up", "other"), "sex": ("f", "m")}
    model = PhasedClassifier(units=6, epochs=2, random_state=0).fit(read, read.ids % 2)
    model.save(tmp_path)
    new = {"id": [1] * 3, "time": [0.5, 1.5, 1.5], "HR": [70, 71, None], "state": [None, "down", "unseen"], "sex": ["m"] * 3}
    expected = model.predict_proba(Events.read(new, like=read))[0, 1]
    for each in (model, PhasedClassifier.load(tmp_path)):
        sequence = each.online(static={"sex": "m "})
        sequence.push(0.5, {"HR": 70})
        sequence.push(1.5, {"HR": 71, "state": "down"})
        sequence = each.online(state=sequence.dump())
        with pytest.raises(TypeError, match="state must be text, such as 'down', got 3"):
            sequence.push(1.5, {"state": 3})
        with pytest.raises(ValueError, match="known to the model, 'HR', 'state', got 'State'"):
            sequence.push(1.5, {"State": "up"})
        assert abs(sequence.push(1.5, {"state": "unseen"}) - expected) < 1e-5
        with pytest.raises(TypeError, match="sex must be text"):
            each.online(static={"sex": None})
