"""Results are read as written; what is no result is named and left alone."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.report.fields import Malformed
from phased.report.results import parse, read


def test_a_result_is_read_as_it_was_written(result, put, tmp_path, at_the_end):
    line = result(seed=3, leak=0.0)
    (read_back,) = read(put(tmp_path, line)).results
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


def test_results_are_found_in_folders_of_any_depth_and_in_the_order_of_their_paths(result, put, tmp_path):
    put(tmp_path / "b" / "c", result(seed=0))
    put(tmp_path / "a", result(seed=1))
    assert [found.seed for found in read(tmp_path).results] == [1, 0]


def test_a_model_without_gates_has_none_and_updates_every_step(result, put, tmp_path):
    line = result(model="lstm")
    del line["gates"]
    (lstm,) = read(put(tmp_path, line)).results
    assert lstm.before is None
    assert lstm.after is None
    assert lstm.updates is None


@pytest.mark.parametrize("name", ["gates", "extra"])
def test_what_a_result_has_beyond_the_needed_is_no_reason_to_refuse_it(result, name):
    line = result(model="lstm") | {name: None}
    assert parse(json.dumps(line)).model == "lstm"


def test_a_line_that_is_cut_off_is_skipped_with_one_warning_that_names_file_and_line(result, put, tmp_path):
    put(tmp_path, result(seed=0))
    whole = json.dumps(result(seed=1))
    file = tmp_path / "cut.jsonl"
    file.write_text(f"{whole}\n{whole[: len(whole) // 2]}\n")
    before = file.read_bytes()
    with pytest.warns(UserWarning, match=r"cut\.jsonl', line 2: skipped, it is cut off or not JSON") as caught:
        reading = read(tmp_path)
    assert len(caught) == 1
    assert sorted(found.seed for found in reading.results) == [0, 1]
    assert reading.skipped == [str(caught[0].message)]
    assert file.read_bytes() == before


FOREIGN = {
    "a list": "[1, 2]",
    "a number": "3",
    "another object": '{"hello": "world"}',
    "bytes": b"\xff\xfe\x00garbage",
    "deeper than JSON goes": "[" * 100_000,
}


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_lines_are_skipped_each_with_a_warning(line, result, put, tmp_path):
    put(tmp_path, result())
    (tmp_path / "foreign.jsonl").write_bytes(b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n\n")
    with pytest.warns(UserWarning, match=r"foreign\.jsonl', line 2: skipped") as caught:
        assert len(read(tmp_path).results) == 1
    assert len(caught) == 1


WRONG = {
    "no experiment": ("experiment", None),
    "seed as text": ("seed", "0"),
    "seed as a truth": ("seed", True),
    "settings as a list": ("settings", []),
    "no epoch": ("curve", []),
    "epochs that are numbers": ("curve", [1, 2]),
    "an epoch without its number": ("curve", [{"loss": 1.0, "test": 0.5, "seconds": 1.0}]),
    "a test that is text": ("curve", [{"epoch": 1, "loss": 1.0, "test": "good", "seconds": 1.0}]),
    "wall as text": ("wall", "long"),
    "wall beyond all numbers": ("wall", 10**400),
    "gates without periods": ("gates", {"shift": {"before": [], "after": []}}),
    "gates of two sizes": (
        "gates",
        {name: {"before": [0.1] * n, "after": [0.1] * n} for n, name in ((1, "period"), (2, "shift"), (1, "ratio_on"))},
    ),
}


@pytest.mark.parametrize("key, value", WRONG.values(), ids=WRONG.keys())
def test_a_result_with_a_part_missing_or_of_another_kind_is_refused_by_name(key, value, result):
    line = result()
    if value is None:
        del line[key]
    else:
        line[key] = value
    with pytest.raises(Malformed, match="|".join((key, "epoch", "test"))):
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


def test_a_folder_that_is_not_there_is_an_error_with_the_cure(tmp_path):
    with pytest.raises(NotADirectoryError, match=r"there is no folder '.*none'. Name the one that `phased run`"):
        read(tmp_path / "none")


def test_a_file_that_cannot_be_read_is_skipped_with_a_warning(result, put, tmp_path):
    put(tmp_path, result())
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.warns(UserWarning, match=r"folder\.jsonl': skipped, it cannot be read"):
        assert len(read(tmp_path).results) == 1


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
