"""The page is self-contained, begins with what is there, and depends on its records alone; unusual records are drawn."""

import json
import re

import pytest

from phased_lab import docs_tables
from phased_lab.report.page import NAME, render, sections
from phased_lab.runs import discovery
from records import put, records, reported, result, visible


def page_of(*lines, skipped=()):
    found = records(*lines)
    return render(sections(found), found, skipped)


def specs(page: str) -> dict:
    """The charts of a page by their ids."""
    (text,) = re.findall(r'<script type="application/json" id="specs">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_the_page_loads_nothing_and_stays_light(report):
    assert report.page.name == NAME
    body = re.sub(r"<script\b.*?</script>", "", report.text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)\s*=\s*"(?!#|data:)', body)
    assert not re.findall(r"@import|url\(", body)
    assert "<script src" not in report.text
    assert len(report.text.encode()) < 5_000_000


def test_every_box_for_a_chart_has_its_chart_and_its_data(report):
    boxes = re.findall(r'class="chart" id="([^"]+)"', report.text)
    charts = specs(report.text)
    assert boxes == list(charts)
    assert len(set(boxes)) == len(boxes) == len(report.pictures) / 2
    assert all(all(spec["datasets"].values()) for spec in charts.values())
    ids = re.findall(r' id="([^"]+)"', re.sub(r"<script>.*?</script>", "", report.text, flags=re.DOTALL))
    assert len(ids) == len(set(ids))


def test_the_page_begins_with_what_is_there_in_the_order_of_the_paper(report):
    text = visible(report.text)
    places = [text.index(f"{about.heading} paper scale") for about in discovery.experiments().values() if about.studies]
    assert places == sorted(places)
    assert text.index("Fig. 3") < text.index("Training without a leak") < text.index("What it cost") < text.index("Every run")
    assert "What is missing" not in text
    for expected in ("Phased LSTM: the paper's experiments", "What the paper finds", "5 seeds", "Fig. 6", "Made-up CPU, 2 cores"):
        assert expected in text


def test_what_is_missing_stands_at_the_end_with_its_commands():
    text = visible(page_of(result(scale="quick", epochs=2), skipped=["a file: skipped"]))
    assert text.index("a first look, not a reproduction") < text.index("Every run") < text.index("What is missing for")
    assert "Fig. 3: Frequency discrimination: no runs at the paper's scale. To run them: phased run frequency" in text
    assert text.index("What is missing for") < text.index("a file: skipped")
    empty = visible(page_of())
    assert "There are no results yet." in empty
    for experiment in ("frequency", "superimposed", "adding"):
        assert f"phased run {experiment} --scale paper --seeds 5 --out results" in empty


def test_the_page_is_the_same_on_a_machine_with_data(request):
    digits = result("nmnist", "phased", "simulated")
    page = page_of(digits)
    request.getfixturevalue("data_folder")
    assert page_of(digits) == page


def test_a_run_made_again_is_counted_once_and_one_seed_is_shown_without_a_spread():
    page = page_of(result(end=0.7), result(end=0.9) | {"date": "2027-01-01"})
    assert "Not counted, because the same runs have newer results: 1." in visible(page)
    assert "1 seed" in visible(page)
    assert "±" not in visible(page).split("asynchronous")[-1].split("What it cost")[0].replace("Mean ± standard deviation", "")
    (row,) = (rows[0] for rows in specs(page)["frequency-bars"]["datasets"].values() if "mean" in rows[0])
    assert (row["seeds"], row["low"], row["high"]) == (1, None, None)


@pytest.fixture
def made_of(tmp_path):
    """The page of results with its pictures and tables; warnings are errors in tests, so nothing was skipped."""

    def made(*lines) -> str:
        for number, line in enumerate(lines):
            line["name"] = f"{number}"
        folder = put(tmp_path / "in", *({**line, "experiment": line["experiment"].replace("/", "-")} for line in lines))
        page, *pictures = reported(folder, tmp_path / "out")
        assert pictures
        assert {path.parent for path in pictures} == {tmp_path / "out"}
        assert "leak" in docs_tables.of_runs(folder)
        return page.read_text()

    return made


def of_every_figure(result, **more):
    places = ({}, {"experiment": "superimposed", "condition": "superimposed"}, {"experiment": "adding", "condition": "exp(2,4)"})
    # Gates take a while, and have tests of their own.
    return [result(epochs=2, **place, **more) | {"gates": None} for place in places]


def test_curves_without_a_finite_number_are_drawn(made_of):
    lines = of_every_figure(result, seed=1)
    for line in lines:
        line["curve"] = [{"epoch": 1, "loss": None, "test": None, "seconds": None, "updates": None}]
    lost = result(epochs=2, model="lstm")
    lost["curve"][0]["test"], lost["curve"][1]["test"] = float("inf"), float("-inf")
    assert "1 of 1 of LSTM diverged, in no mean" in made_of(*lines, *of_every_figure(result, seed=2), lost)


def test_text_of_any_kind_is_drawn_and_stays_text(made_of):
    lines = [result(epochs=2) | {"gates": None}]
    for text in (r"$\frac$", "_hidden", "", "²", "</script><script>alert('x')</script><!--|*`[x](y)"):
        lines += [result(epochs=2, leak=0.0, variant=text) | {"gates": None}]
        lines += [result(epochs=2, model="lstm") | {"model": text, "condition": text, "command": text, "date": text}]
        lines[-1]["machine"]["processor"] = lines[-1]["versions"]["phased"] = text
    for page in (made_of(*lines), page_of(*lines, skipped=[text])):
        assert "<script>alert" not in page
        assert "alert('x')" in visible(page)


def test_a_layer_of_thousands_of_units_that_are_always_open_makes_a_page_of_bounded_size():
    line = result(epochs=2)
    always = {"period": 3.0, "shift": 0.0, "ratio_on": 1.0}
    line["gates"] = {name: dict.fromkeys(("before", "after"), [value] * 10_000) for name, value in always.items()}
    page = page_of(line)
    assert len(page) < 4_000_000
    assert "100.0% before training" in page


def test_an_experiment_of_which_nothing_is_known_has_a_section_too(made_of):
    page = made_of(result(epochs=2) | {"experiment": "something new", "condition": "of its own"})
    assert "something new" in visible(page)
    assert "something-new-learning" in specs(page)
