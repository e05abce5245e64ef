"""The documents' tables: what the results say, in Markdown."""

import pytest

from phased_lab.report import markdown


def rows(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if not line.startswith("|---")]


@pytest.fixture
def made(full_folder):
    return markdown.tables(full_folder)


def test_a_figure_has_a_row_for_every_line_and_the_papers_number(made):
    head, *body = rows(made["frequency"])
    assert head[-1] == "paper"
    assert len(body) == 3 * 4
    assert {row[0] for row in body} == {"standard", "high resolution", "asynchronous"}
    assert {row[-1] for row in body if row[1] == "LSTM"} == {"89 %", "52 %", "69 %"}
    assert all(row[head.index("updates")] == "every step" for row in body if "LSTM" in row[1] and "Phased" not in row[1])


def test_what_goes_beyond_a_figure_is_a_table_of_its_own_without_the_papers_number(made):
    head, *body = rows(made["beyond frequency"])
    assert "paper" not in head
    assert len(body) == 4
    assert "beyond adding" not in made


def test_errors_are_numbers_and_accuracies_percent(made):
    assert all("%" in row[2] and "±" in row[2] for row in rows(made["superimposed"])[1:])
    assert all("%" not in row[2] for row in rows(made["adding"])[1:])


def test_runs_that_differ_in_the_leak_alone_stand_side_by_side(made):
    _, *body = rows(made["leak"])
    assert len(body) == 3 + 1 + 4
    assert {row[-1] for row in body} <= {"yes", "no"}


def test_runs_on_the_authors_waves_are_told_from_the_others(tmp_path, result, put):
    theirs = {"periods": "authors", "condition": "asynchronous"}
    _, *body = rows(markdown.tables(put(tmp_path, *(result(leak=leak, task=theirs) for leak in (0.0, 0.001))))["leak"])
    assert [row[0] for row in body] == ["frequency, asynchronous, waves as in the authors' code"]


def test_one_seed_has_no_spread_and_says_so(tmp_path, result, put):
    made = markdown.tables(put(tmp_path, result(leak=0.0), result()))
    (_, *body), (_, *leaks) = rows(made["frequency"]), rows(made["leak"])
    assert all("±" not in row[2] for row in body)
    assert leaks[0][-1] == "one seed"


def test_runs_of_another_scale_are_left_out(tmp_path, result, put):
    assert "frequency" not in markdown.tables(put(tmp_path, result(scale="quick")))
