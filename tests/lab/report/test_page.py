"""The page is self-contained, states what it shows and what is missing, and changes only with its results."""

import base64
import html
import json
import re

import pytest

from phased_lab.report.html.page import NAME, render
from records import page_of
from records import records as made


def specs(page: str) -> dict:
    """The charts of a page by their ids."""
    (text,) = re.findall(r'<script type="application/json" id="specs">(.*?)</script>', page, re.DOTALL)
    return {name: spec for part in json.loads(text) for name, spec in part["charts"].items()}


def words(page: str) -> str:
    """What a reader sees of a page, without charts and scripts."""
    visible = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", visible)))


@pytest.fixture(scope="module")
def full_page(full_folder, tmp_path_factory) -> str:
    return page_of(full_folder, tmp_path_factory.mktemp("page")).read_text()


def test_the_page_is_one_file(result, put, tmp_path):
    put(tmp_path / "in", result())
    page = page_of(tmp_path / "in", tmp_path / "out")
    assert page == tmp_path / "out" / NAME
    assert list(page.parent.iterdir()) == [page]


def test_the_page_loads_nothing(full_page):
    body = re.sub(r"<script\b.*?</script>", "", full_page, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)\s*=\s*"(?!#|data:)', body)
    assert not re.findall(r"@import|url\(", body)
    assert "<script src" not in full_page


def test_every_box_for_a_chart_has_its_chart_and_its_data(full_page):
    boxes = re.findall(r'class="chart" id="([^"]+)"', full_page)
    charts = specs(full_page)
    assert boxes == list(charts)
    assert len(set(boxes)) == len(boxes)
    for spec in charts.values():
        assert spec["width"] == "container"
        assert spec["datasets"]


def test_the_papers_numbers_stand_beside_ours_with_the_number_of_seeds(full_page, all_lines, at_the_end):
    text = words(full_page)
    for expected in (
        "99.6",
        "93 to 94",
        "What the paper finds",
        "5 seeds",
        "paper scale",
        "Made-up CPU, 2 cores",
        "r_on 0.05 fixed",
    ):
        assert expected in text
    place = ("frequency", "lstm", "high")
    lstm = [at_the_end(line) for line in all_lines if (line["experiment"], line["model"], line["condition"]) == place]
    assert f"{100 * sum(lstm) / len(lstm):.1f} ± " in text


def test_a_full_page_says_nothing_is_missing_and_an_empty_one_how_to_begin(full_page, tmp_path):
    assert "What is missing" not in words(full_page)
    (tmp_path / "empty").mkdir()
    text = words(page_of(tmp_path / "empty", tmp_path / "out").read_text())
    assert "There are no results yet." in text
    for experiment in ("frequency", "superimposed", "adding"):
        assert f"phased run {experiment} --scale paper --seeds 5 --out {tmp_path / 'empty'}" in text


def test_the_quick_scale_is_called_no_reproduction(result):
    text = words(render(made(result(scale="quick", epochs=2)), []))
    assert "quick scale" in text
    assert "a first look, not a reproduction" in text
    assert "Phased LSTM, asynchronous: 0 of 5 seeds" in text


def test_one_seed_is_shown_without_a_spread(result):
    page = render(made(result(end=0.9)), [])
    assert "1 seed" in words(page)
    assert "±" not in words(page).split("Numbers", 1)[1].split("Gates", 1)[0].split("asynchronous")[1]
    rows = specs(page)["frequency-bars"]["datasets"]["rows"]
    assert [(row["seeds"], row["low"], row["high"]) for row in rows] == [(1, None, None)]


def test_skipped_lines_are_on_the_page(result, put, tmp_path):
    put(tmp_path / "in", result())
    (tmp_path / "in" / "foreign.jsonl").write_text("{}\n")
    with pytest.warns(UserWarning, match="foreign"):
        page = page_of(tmp_path / "in", tmp_path / "out")
    assert "foreign.jsonl', line 1: skipped" in words(page.read_text())


def test_a_run_made_again_is_counted_once_and_told(result):
    early, late = result(end=0.7), result(end=0.9)
    late["date"] = "2027-01-01"
    text = words(render(made(early, late), []))
    assert "Not counted, because the same runs have newer results: 1." in text


def test_text_in_results_stays_text(result):
    line = result(epochs=2)
    bad = "</script><script>alert('x')</script><!--"
    line |= {"name": bad, "condition": bad, "command": bad, "date": bad}
    line["machine"]["processor"] = bad
    page = render(made(line), [bad])
    assert "<script>alert" not in page
    assert "alert('x')" in words(page)
    assert all("alert" not in name for name in specs(page))


def test_numbers_that_are_not_finite_leave_the_page_whole(result):
    lines = [result(), result(model="lstm", seed=1), result(model="lstm", seed=0)]
    for point in lines[1]["curve"][2:]:
        point["test"] = point["loss"] = float("nan")
    text = words(render(made(*lines), []))
    assert "1 of 2 of LSTM diverged, in no mean" in text
    assert "1, and 1 diverged" in text
    lines[2]["curve"][-1]["test"] = None
    assert "diverged" in words(render(made(*lines), []))


def test_an_experiment_the_paper_does_not_have_gets_a_section_too(result):
    line = result()
    line["experiment"], line["condition"] = "something new", "of its own"
    page = render(made(line), [])
    assert "something new" in words(page)
    assert "something-new-learning-0" in specs(page)


def test_the_same_results_give_the_same_page(full_folder, full_page, tmp_path):
    assert page_of(full_folder, tmp_path).read_text() == full_page


def test_the_page_stays_light(full_page):
    assert len(full_page.encode()) < 4_000_000


def test_an_experiment_with_an_example_shows_it_as_a_picture_inside_the_page(full_page):
    (picture,) = re.findall(r'<img class="picture" src="data:image/png;base64,([A-Za-z0-9+/=]+)" alt="([^"]+)">', full_page)
    assert base64.b64decode(picture[0]).startswith(b"\x89PNG")
    assert picture[1].startswith("Event by event. ")
    assert "with a confidence of" in picture[1]
