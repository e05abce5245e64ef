"""Records are read as written, in this schema and in older ones; other content raises an error that names the field."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.learn.store import Epoch, Score
from phased_lab.runs import catalogue
from phased_lab.runs.record import SCHEMA, Gates, Malformed, Record, parse
from records import ADDED_BY_SCHEMA_2, older
from training import execute, tiny_run

COMMITTED = Path(__file__).parents[3] / "results"

# nan stands for all that is not finite.
numbers = st.floats(allow_infinity=False, allow_nan=False) | st.just(math.nan)
shares = st.none() | st.floats(0, 1)
texts = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20)
settings = st.dictionaries(
    texts, st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | texts | st.booleans() | st.none(), max_size=4
)


@st.composite
def curves(draw):
    epochs = draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=8, unique=True))
    values = st.tuples(numbers, numbers, numbers, shares, st.none() | numbers)
    return tuple(Epoch(epoch, *draw(values)) for epoch in sorted(epochs))


@st.composite
def gates(draw):
    units = draw(st.integers(1, 4))
    lists = {name: st.lists(st.floats(1e-6, 1e6), min_size=units, max_size=units).map(tuple) for name in Gates._fields}
    return Gates(**{name: draw(values) for name, values in lists.items()}), Gates(**{n: draw(v) for n, v in lists.items()})


SCORE = {"test": 0.5, "sequences": 10, "steps": 20.5, "updates": 0.05}
scores = st.builds(Score, numbers, st.integers(1, 10**9), numbers, shares, st.none() | numbers, st.none() | numbers)


@st.composite
def any_record(draw):
    before, after = draw(gates()) if draw(st.booleans()) else (None, None)
    words = {field.name: draw(texts) for field in fields(Record) if field.type == "str"}
    return Record(
        **words,
        seed=draw(st.integers(-(2**64), 2**64)),
        settings=draw(settings | st.fixed_dictionaries({"task": settings, "points": st.lists(st.integers(0, 9), max_size=3)})),
        curve=draw(curves()),
        wall=draw(numbers),
        updates=draw(shares),
        versions=draw(settings),
        machine=draw(settings),
        before=before,
        after=after,
        evaluations=draw(st.dictionaries(texts, scores, max_size=3)),
    )


def plain(value: Any) -> Any:
    """The value with a string in place of nan, which is not equal to itself."""
    if isinstance(value, Record):
        return plain({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@given(any_record())
def test_a_record_written_and_read_is_equal(record):
    again = parse(record.line())
    assert plain(again) == plain(record)
    assert again.line() == record.line()


def test_a_record_of_a_run_written_and_read_is_equal(tmp_path):
    for model in ("phased", "lstm"):
        run = tiny_run(model=model, epochs=1)
        execute(run, tmp_path)
        text = run.file(tmp_path).read_text()
        assert parse(text).line() == text


@given(any_record())
def test_the_same_record_is_the_same_bytes_whatever_order_its_keys_come_in(record):
    turned = {key: dict(reversed(getattr(record, key).items())) for key in ("settings", "versions", "machine")}
    assert replace(record, **turned).line() == record.line()
    line = record.line()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert line == json.dumps(json.loads(line), sort_keys=True, allow_nan=False) + "\n"


def test_the_schema_is_recorded(result, tmp_path):
    assert SCHEMA == 3
    assert execute(tiny_run(epochs=1), tmp_path)["schema"] == 2, "without evaluations"
    assert json.loads(parse(json.dumps(older(result()))).line())["schema"] == 2, "schema 1 is not written"
    assert json.loads(parse(json.dumps(result() | {"evaluations": {"dark": SCORE}})).line())["schema"] == 3


@pytest.mark.parametrize("schema", [SCHEMA + 1, 10**6])
def test_a_newer_schema_is_refused_with_the_cure(schema, result):
    with pytest.raises(Malformed, match=rf"'schema' must be at most 3, got {schema}: .* a newer version. Upgrade phased"):
        parse(json.dumps(result() | {"schema": schema}))


def test_an_older_file_has_defaults_for_what_its_schema_had_not(result):
    line = result(leak=0.0, openness_cost=0.1)
    new, old = (parse(json.dumps(each)) for each in (line, older(line)))
    assert (new.schema, new.study, new.variant) == (2, "sparsity", "r_on learned from 0.05, leak 0, openness cost 0.1")
    assert (old.schema, old.study, old.variant, old.data) == (1, "frequency", "", "")
    for field in fields(Record):
        if field.name not in ADDED_BY_SCHEMA_2:
            assert getattr(old, field.name) == getattr(new, field.name)


def test_a_record_without_a_study_is_of_the_study_named_like_its_experiment(result):
    assert parse(json.dumps(result() | {"study": ""})).study == "frequency"
    assert json.loads(parse(json.dumps(older(result()))).line())["study"] == "frequency"


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="source packages have no results")
@pytest.mark.parametrize("study", sorted(file.stem for file in COMMITTED.glob("*.jsonl")))
def test_committed_files_are_of_one_study_in_this_schema_sorted_and_written_as_they_would_be_again(study):
    text = (COMMITTED / f"{study}.jsonl").read_text(encoding="utf-8")
    found = [parse(line) for line in text.splitlines()]
    assert {record.study for record in found} == {study}
    assert all(record.schema == record.written_schema for record in found)
    names = [(record.name, record.scale) for record in found]
    assert names == sorted(set(names)), "each run once, by name"
    assert "".join(record.line() for record in found) == text


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="source packages have no results")
def test_every_committed_file_is_of_a_study():
    assert {file.stem for file in COMMITTED.rglob("*.jsonl")} <= set(catalogue.studies())
    assert {file.parent for file in COMMITTED.rglob("*.jsonl")} == {COMMITTED}


def test_a_result_is_read_as_it_was_written(result, at_the_end):
    line = result(seed=3, leak=0.0)
    read_back = parse(json.dumps(line))
    assert (read_back.study, read_back.variant, read_back.data) == ("frequency", "leak 0", "")
    assert (read_back.experiment, read_back.model, read_back.condition, read_back.seed) == (
        "frequency",
        "phased",
        "asynchronous",
        3,
    )
    assert read_back.settings == line["settings"]
    assert [point.test for point in read_back.curve] == [point["test"] for point in line["curve"]]
    assert read_back.test == pytest.approx(at_the_end(line))
    assert read_back.after.period == tuple(line["gates"]["period"]["after"])
    assert read_back.before.ratio_on == tuple(line["gates"]["ratio_on"]["before"])


def test_a_model_without_gates_has_none_and_updates_every_step(result):
    line = result(model="lstm")
    assert "gates" not in line
    lstm = parse(json.dumps(line))
    assert lstm.before is None
    assert lstm.after is None
    assert lstm.updates is None


@pytest.mark.parametrize("name", ["gates", "extra"])
def test_what_a_result_has_beyond_the_needed_is_no_reason_to_refuse_it(result, name):
    line = result(model="lstm") | {name: None}
    assert parse(json.dumps(line)).model == "lstm"


@pytest.mark.parametrize("key", ["experiment", "seed", "settings", "curve", "wall"])
def test_a_result_with_a_part_missing_is_refused_by_name(key, result):
    line = result()
    del line[key]
    with pytest.raises(Malformed, match=f"it has no '{key}'|argument: '{key}'"):
        parse(json.dumps(line))


@pytest.mark.parametrize("word", ["null", "NaN", "Infinity"])
def test_a_number_that_is_not_finite_is_kept_as_such(word, result):
    line = json.dumps(result(epochs=2))
    last = json.loads(line)["curve"][-1]["test"]
    assert not math.isfinite(parse(line.replace(f'"test": {last!r}', f'"test": {word}')).test)


@given(st.integers(0, 2000))
def test_no_cut_of_a_line_makes_a_different_result(at):
    line = json.dumps({"experiment": "x", "seed": 0, "text": "y" * 100})
    with pytest.raises(Malformed):
        parse(line[:at])


def test_the_device_is_the_accelerator_or_else_the_processor(result):
    line = result()
    assert parse(json.dumps(line)).device == "Made-up CPU, 2 cores"
    line["machine"]["device"] = "Made-up GPU"
    assert parse(json.dumps(line)).device == "Made-up GPU"


def test_gates_that_training_drove_out_of_all_bounds_are_left_out_and_the_rest_is_kept(result, at_the_end):
    line = result()
    line["gates"]["shift"]["after"][3] = None
    read_back = parse(json.dumps(line))
    assert read_back.before is None
    assert read_back.after is None
    assert read_back.test == pytest.approx(at_the_end(line))
