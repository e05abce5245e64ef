"""Records are read as they were written, in this schema and in the one before."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.learn.store import Epoch, Score
from phased_lab.runs import discovery
from phased_lab.runs.record import SCHEMA, Gates, Record, parse
from records import at_the_end, result

COMMITTED = Path(__file__).parents[3] / "results"
EARLIER = {"nmnist-settled"}  # studies of an earlier version

# nan stands for all that is not finite.
numbers = st.floats(allow_infinity=False, allow_nan=False) | st.just(math.nan)
shares = st.none() | st.floats(0, 1)
texts = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20)
settings = st.dictionaries(
    texts, st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | texts | st.booleans() | st.none(), max_size=4
)


curves = st.lists(
    st.builds(Epoch, st.integers(1, 10**6), numbers, numbers, numbers, shares, st.none() | numbers), min_size=1, max_size=8
).map(tuple)
scores = st.builds(Score, numbers, st.integers(1, 10**9), numbers, shares, st.none() | numbers, st.none() | numbers)
positive = st.floats(1e-6, 1e6)
sides = st.integers(1, 4).flatmap(lambda units: st.tuples(*[st.builds(Gates, *[st.tuples(*[positive] * units)] * 3)] * 2))


@st.composite
def any_record(draw):
    before, after = draw(st.just((None, None)) | sides)
    values = {
        **{field.name: texts for field in fields(Record) if field.type == "str"},
        "seed": st.integers(-(2**64), 2**64),
        "settings": settings | st.fixed_dictionaries({"task": settings, "points": st.lists(st.integers(0, 9), max_size=3)}),
        "curve": curves,
        "wall": numbers,
        "updates": shares,
        "versions": settings,
        "machine": settings,
        "evaluations": st.dictionaries(texts, scores, max_size=3),
    }
    return Record(before=before, after=after, **{name: draw(value) for name, value in values.items()})


@given(any_record())
def test_a_record_written_and_read_is_equal_and_the_same_bytes_whatever_order_its_keys_come_in(record):
    line = record.line()
    again = parse(line)
    np.testing.assert_equal(vars(again), vars(record))
    assert again.line() == line
    assert (line[-1], line.count("\n")) == ("\n", 1)
    assert line == json.dumps(json.loads(line), sort_keys=True, allow_nan=False) + "\n"
    turned = {key: dict(reversed(getattr(record, key).items())) for key in ("settings", "versions", "machine")}
    assert replace(record, **turned).line() == line


def test_the_schema_is_the_oldest_that_has_all_fields_and_a_newer_one_is_refused_with_the_cure():
    assert SCHEMA == 3
    assert json.loads(parse(json.dumps(result("nmnist", "cnn", "simulated"))).line())["schema"] == 3
    assert json.loads(parse(json.dumps(result() | {"schema": 3})).line())["schema"] == 2
    with pytest.raises(ValueError, match=r"schema must be at most 3, got 4 of a newer version\. Upgrade phased"):
        parse(json.dumps(result() | {"schema": SCHEMA + 1}))


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="source packages have no results")
@pytest.mark.parametrize("study", sorted(file.stem for file in COMMITTED.glob("*.jsonl")))
def test_committed_files_are_of_one_study_in_this_schema_sorted_and_written_as_they_would_be_again(study):
    text = (COMMITTED / f"{study}.jsonl").read_text(encoding="utf-8")
    found = [parse(line) for line in text.splitlines()]
    assert {record.study for record in found} == {study}
    assert study in discovery.studies() or study in EARLIER
    names = [(record.name, record.scale) for record in found]
    assert names == sorted(set(names)), "each run once, by name"
    assert "".join(record.line() for record in found) == text


def test_a_result_is_read_as_it_was_written():
    line = result(seed=3, leak=0.0)
    line["machine"]["device"] = "Made-up GPU"
    found = parse(json.dumps(line | {"extra": None, "study": ""}))
    place = found.study, found.variant, found.data, found.model, found.condition, found.seed
    assert place == ("frequency", "leak 0", "", "phased", "asynchronous", 3), "the study is named like the experiment"
    assert (found.settings, found.device) == (line["settings"], "Made-up GPU")
    assert [point.test for point in found.curve] == [point["test"] for point in line["curve"]]
    assert found.test == pytest.approx(at_the_end(line))
    cycle = parse(json.dumps(result("nmnist", "cnn", "simulated")))
    assert (cycle.test, cycle.loss) == (cycle.curve[-1].test, cycle.curve[-1].loss), "of a cycle the last epoch"
    assert found.after.period == tuple(line["gates"]["period"]["after"])
    assert found.before.ratio_on == tuple(line["gates"]["ratio_on"]["before"])
    line["gates"]["shift"]["after"][3] = None
    found = parse(json.dumps(line))
    assert (found.before, found.after) == (None, None), "training drove a gate out of all bounds"


@pytest.mark.parametrize("key", ["experiment", "seed", "settings", "curve", "wall", "schema"])
def test_a_result_with_a_part_missing_is_refused_by_name(key):
    line = result()
    del line[key]
    with pytest.raises((KeyError, TypeError), match=f"'{key}'"):
        parse(json.dumps(line))


@pytest.mark.parametrize("word", ["null", "NaN", "Infinity"])
def test_a_number_that_is_not_finite_is_read_as_such(word):
    line = json.dumps(result(epochs=2))
    last = json.loads(line)["curve"][-1]["test"]
    assert not math.isfinite(parse(line.replace(f'"test": {last!r}', f'"test": {word}')).test)
