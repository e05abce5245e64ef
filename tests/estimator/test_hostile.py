"""Numbers that are not finite or of an unusual size: an error and the state as before, or the batch's answer."""

import copy
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patients import QUICK, X, Y, measured, quick
from phased.estimator import Events, PhasedClassifier, PhasedRegressor

SAVED = Path(__file__).parents[1] / "nets/saved"
SEVERAL = [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e308, 10**400, -(10**400), 2**53 + 1, True, "5", None, 1j]
SEVERAL += [np.uint64(2**63 + 5), np.bool_(False), np.float32(101325.3), np.int32(2**31 - 1), np.int8(-5), np.float16(3.3)]
SEVERAL += [np.longdouble(7.1), Decimal("NaN"), Decimal(3)]
NUMBERS = st.one_of(st.floats(0, 100), st.floats(0, 100, width=32).map(np.float32), st.integers(0, 50).map(np.int32))
HOSTILE = st.one_of(NUMBERS, NUMBERS, NUMBERS, st.floats(), st.integers(), st.sampled_from(SEVERAL))
EVENTS = st.lists(st.tuples(HOSTILE, st.dictionaries(st.sampled_from(X.variables), HOSTILE, max_size=3)), max_size=9)


@pytest.mark.filterwarnings("ignore:Sequence")
@given(st.sampled_from(["classifier", "of_three", "regressor"]), HOSTILE, EVENTS)
@settings(max_examples=100)
def test_online_equals_the_batch_or_raises_and_changes_nothing(request, name, age, events):
    model, static, taken, answers = request.getfixturevalue(name), math.nan, [], []
    try:
        online, static = model.online(static={"Age": age}), float(age)
    except (TypeError, ValueError):
        online = model.online()
    for time, values in events:
        before = online.dump()
        try:
            answers.append(online.push(time, values))
            taken.append((float(time), [float(values.get(each, math.nan)) for each in X.variables]))
        except (TypeError, ValueError):
            assert online.dump() == before
    assert np.isfinite(answers).all()
    if taken:
        times, rows = zip(*taken, strict=True)
        alike = {"variables": X.variables, "static": [[static, math.nan]], "statics": X.statics, "unit": "h"}
        one = Events.of([times], [rows], **alike)
        if name == "regressor":
            assert np.allclose(answers, model.predict(one), atol=1e-4 * model.spread_)
        else:
            assert np.allclose(answers[-1], model.predict_proba(one)[0, -np.size(answers[-1]) :], atol=1e-4)


@pytest.mark.parametrize("size", [2.0**-990, 2.0**980])
def test_the_size_of_a_variable_or_a_target_changes_no_bit(size):
    sized = replace(X, value=X.value * np.where(X.variable == 0, size, 1.0), static=X.static * [size, 1.0])
    assert np.array_equal(PhasedClassifier(**QUICK).fit(sized, Y).predict_proba(sized), quick().predict_proba(X))
    size = min(size, 2.0**480)
    sized, plain = PhasedRegressor(**QUICK).fit(X, Y * size).evaluate(X, Y * size), quick(PhasedRegressor).evaluate(X, Y)
    assert sized == {"r2": plain["r2"], "rmse": plain["rmse"] * size, "mae": plain["mae"] * size}


@pytest.mark.parametrize("number", [1e301, -1.7e308])
def test_what_is_too_large_is_refused_before_training(classifier, number):
    value, static, time = X.value.copy(), X.static.copy(), X.time.copy()
    value[7], static[3, 0], time[X.offset[4] - 1] = number, number, abs(number)
    for field, changed, message in (
        ("value", value, r"Temp must be from -1e\+300 to 1e\+300, got .* in sequence 'p000' at time 29.1"),
        ("static", static, r"Age must be from -1e\+300 to 1e\+300, got .* in sequence 'p003'"),
        ("time", time, r"time must be from -2\*\*53 to 2\*\*53, got .* in sequence 'p003'"),
    ):
        for call in (PhasedClassifier(**QUICK).fit, classifier.evaluate):
            with pytest.raises(ValueError, match=message):
                call(replace(X, **{field: changed}), Y)
    with pytest.raises(ValueError, match=r"targets must be from -1e\+150 to 1e\+150, got"):
        PhasedRegressor(**QUICK).fit(X, np.where(Y, number, 0.0))


def test_an_answer_that_is_not_finite_is_an_error_that_names_the_sequence(classifier, regressor):
    for model, message in ((classifier, "got nan in sequence 'p000'"), (regressor, "got nan in sequence 'p000' at time 0.13")):
        broken = copy.deepcopy(model)
        broken.network_.head.bias.data.fill_(math.nan)
        with pytest.raises(ValueError, match=f"the answer must be finite, {message}"):
            broken.predict(X)
        online = broken.online()
        before = online.dump()
        with pytest.raises(ValueError, match="the answer must be finite, got nan for this event"):
            online.push(1.0, {"HR": 80.0})
        assert (online.dump(), online.time) == (before, None)


@pytest.mark.filterwarnings("ignore:.* units open at no step")
@pytest.mark.parametrize("times", ["irregular", "a grid", "one step"])
def test_the_smallest_budget_gives_a_model_with_updates(times):
    steps = {"irregular": X.lengths, "a grid": [5] * 60, "one step": [1] * 60}[times]
    clocks = np.split(X.time, X.offset[1:-1]) if times == "irregular" else [np.arange(n) for n in steps]
    events = Events.of(clocks, [np.random.default_rng(n).normal(size=(len(clock), 1)) for n, clock in enumerate(clocks)])
    with pytest.raises(ValueError, match="updates must be at least") as refused:
        PhasedClassifier(updates=1e-6, **QUICK).fit(events, Y)
    least = float(str(refused.value).split()[5].rstrip(","))
    assert 0 < PhasedClassifier(updates=least, **QUICK).fit(events, Y).report_.updates <= least


def test_events_at_one_time_are_steps_of_their_own():
    times = [np.sort(np.random.default_rng(n).integers(0, 5, 1 + n % 9)).astype(float) for n in range(40)]
    values = [np.random.default_rng(n).normal(n % 2, 1, (len(time), 1)) for n, time in enumerate(times)]
    events = Events.of(times, values)
    model = PhasedRegressor(**QUICK).fit(events, [time + n % 2 for n, time in enumerate(times)])
    assert (model.scaling_.gap, model.report_.gap) == (1.0, 1.0)
    online = [(one.push(*event)) for n in range(40) for one in [model.online()] for event in measured(events, n)]
    assert np.allclose(online, model.predict(events), atol=1e-5)
