"""Unusual records are drawn, and lines that are none are named on the page."""

import json
import re

import pytest

from phased_lab.report import markdown
from phased_lab.report.drawing.pictures import save_pictures
from phased_lab.runs.folder import read
from records import page_of


@pytest.fixture
def folder(result, put, tmp_path):
    """A folder with one good result."""
    return put(tmp_path / "in", result(seed=7, epochs=2))


def made_of(folder, out, *lines) -> str:
    """The page of results; warnings are errors in these tests, so nothing was skipped, and the pictures and tables are made."""
    (folder / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(folder, out).read_text(encoding="utf-8")
    assert len(save_pictures(read(folder).records, out)) > 0
    assert "leak" in markdown.tables(folder)
    return page


def of_every_figure(result, **more):
    places = ({}, {"experiment": "superimposed", "condition": "superimposed"}, {"experiment": "adding", "condition": "exp(2,4)"})
    # Pictures of gates take a while, and have tests of their own.
    return [result(epochs=2, **place, **more) | {"gates": None} for place in places]


def test_curves_without_a_finite_number_are_drawn(result, folder, tmp_path):
    lines = of_every_figure(result, seed=1) + of_every_figure(result, seed=2, leak=0.0)
    for line in lines:
        line["curve"] = [{"epoch": 1, "loss": None, "test": None, "seconds": None, "updates": None}]
    made_of(folder, tmp_path / "out", *lines)


def test_infinities_of_both_signs_are_one_diverged_run(result, folder, tmp_path):
    line = result(epochs=2, model="lstm")
    line["curve"][0]["test"], line["curve"][1]["test"] = float("inf"), float("-inf")
    assert "1 of 1 of LSTM diverged" in made_of(folder, tmp_path / "out", line)


def test_seeds_without_a_common_epoch_are_drawn(result, folder, tmp_path):
    late = of_every_figure(result, seed=2)
    for line in late:
        line["curve"][0]["epoch"], line["curve"][1]["epoch"] = 100, 200
    made_of(folder, tmp_path / "out", *of_every_figure(result, seed=1), *late)


@pytest.mark.parametrize(
    "text",
    [r"$\frac$", "_hidden", "", "²", "</script><b>|*`[x](y)"],
    ids=lambda text: ascii(text[:8]),
)
def test_text_of_any_kind_is_drawn(text, result, folder, tmp_path):
    lines = [*of_every_figure(result, seed=1), result(seed=1, epochs=2, leak=0.0, **{text: text, "normalise": [text]})]
    for line in lines:
        line["machine"]["processor"] = line["versions"]["phased"] = text
    lines += [result(epochs=2, model="lstm") | parts for parts in ({"model": text, "condition": text}, {"experiment": text})]
    lines += [result(epochs=2, model="lstm", weights=weights, task={"periods": text}) for weights in ([text], {"a": text})]
    page = made_of(folder, tmp_path / "out", *lines)
    assert "<b>" not in page


def test_a_layer_of_thousands_of_units_that_are_always_open_makes_a_page_of_bounded_size(result, folder, tmp_path):
    (*_, good) = folder.rglob("*.jsonl")
    good.unlink()
    line = result(epochs=2)
    line["gates"] = {
        name: {when: [value] * 10_000 for when in ("before", "after")}
        for name, value in (("period", 3.0), ("shift", 0.0), ("ratio_on", 1.0))
    }
    page = made_of(folder, tmp_path / "out", line)
    assert len(page) < 8_000_000
    assert "100.0% before training" in page


def test_a_run_of_very_many_epochs_makes_a_page_of_bounded_size(result, folder, tmp_path):
    line = result(leak=0.0, epochs=2)
    line["curve"] = [line["curve"][-1] | {"epoch": epoch} for epoch in range(1, 100_001)]
    page = made_of(folder, tmp_path / "out", line)
    assert len(page) < 4_000_000
    assert '"epoch":100000,' in page


def test_experiments_whose_names_differ_in_signs_only_have_pictures_of_their_own(result, folder, tmp_path):
    names = ["a b", "a/b", "A-B", "a-b-2", "leak", "runs"]
    page = made_of(folder, tmp_path / "out", *(result(epochs=2, model="lstm") | {"experiment": name} for name in names))
    written = {file.stem for file in (tmp_path / "out").glob("*-learning.png")}
    assert written == {
        "frequency-learning",
        *(f"{key}-learning" for key in ("A-B", "a-b-2", "a-b-2-2", "a-b-3", "leak-2", "runs-2")),
    }
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_tables_show_names_letter_by_letter(result, folder):
    for letters in ("a|b", "<b>", "*a*", "`a`", "[a](b)", "_a_"):
        (folder / "more.jsonl").write_text(json.dumps(result(epochs=2) | {"condition": letters}))
        head, *_, row = markdown.tables(folder)["frequency"].splitlines()
        assert len(re.findall(r"(?<!\\)\|", row)) == head.count("|")
        assert letters not in row
        assert letters in row.replace("\\", "")


def test_lines_that_are_no_records_are_named_on_the_page(folder, tmp_path):
    (folder / "odd.jsonl").write_text('{"experiment": "freq\n{}\n')
    with pytest.warns(UserWarning, match="skipped") as caught:
        page = page_of(folder, tmp_path / "out").read_text()
    assert page.count("<li>&#39;") == len(caught) == 2
