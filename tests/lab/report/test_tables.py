"""The tables of results: the page and the documents have the numbers of the records."""

import json
import re

import numpy as np
import pytest

from phased_lab import docs_tables
from phased_lab.report.tables import costs, further_tests, paper_table, printed, results
from phased_lab.runs.descriptor import Printed
from records import at_the_end, grouped, put, records, result, visible


def cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if not line.startswith("|---")]


@pytest.fixture(scope="module")
def made(full_folder):
    return docs_tables.of_runs(full_folder)


@pytest.fixture(scope="module")
def digits(all_lines):
    return grouped(*(line for line in all_lines if line["experiment"] == "nmnist"))


def percent(values):
    return f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f} %"


def test_a_figure_has_a_row_for_every_line_with_the_papers_number(made, all_lines):
    head, *body = cells(made["frequency"])
    assert head[-1] == "paper"
    assert len(body) == 3 * 4
    assert {row[-1] for row in body if row[1] == "LSTM"} == {"89 %", "52 %", "69 %"}
    assert all(row[head.index("updates")] == "every step" for row in body if row[1] in {"LSTM", "BN-LSTM"})
    place = ("frequency", "frequency", "", "lstm", "high")
    lines = [ln for ln in all_lines if tuple(ln[name] for name in ("experiment", "study", "data", "model", "condition")) == place]
    (row,) = (row for row in body if row[:2] == ["high resolution", "LSTM"])
    assert row[2:7] == [
        percent([at_the_end(line) for line in lines]),
        f"{100 * np.mean([line['curve'][-1]['test'] for line in lines]):.2f} %",
        f"{np.mean([np.mean([point['loss'] for point in line['curve'][-5:]]) for line in lines]):.2g}",
        "every step",
        "5",
    ]


def test_other_tables_have_what_goes_beyond_a_figure_and_runs_that_differ_in_the_leak_alone(made):
    head, *body = cells(made["beyond frequency"])
    assert ("paper" in head, len(body), "beyond adding" in made) == (False, 2 + 2 + 3 + 7, False)
    assert all("%" in row[2] and "±" in row[2] for row in cells(made["superimposed"])[1:])
    assert all("%" not in row[2] for row in cells(made["adding"])[1:])
    _, *body = cells(made["leak"])
    assert len(body) == 3 + 1 + 1 + 4
    assert {row[-1] for row in body} <= {"yes", "no"}
    assert "frequency, high resolution, waves as in the authors' code" in {row[0] for row in body}


def test_one_seed_has_no_spread_other_scales_have_no_row_and_diverged_runs_are_counted(tmp_path):
    made = docs_tables.of_runs(put(tmp_path, result(leak=0.0), result(), result(model="lstm", scale="quick")))
    (_, *body), (_, *leaks) = cells(made["frequency"]), cells(made["leak"])
    assert len(body) == 2
    assert all("±" not in row[2] for row in body)
    assert leaks[0][-1] == "one seed"

    lost, whole = result(model="lstm", seed=1), result(model="lstm", seed=0)
    lost["curve"][-1]["test"] = None
    (row,) = results(grouped(lost, whole)).rows
    assert row[6] == "1, and 1 diverged"
    (row,) = results(grouped(lost)).rows
    assert (row[2], row[6]) == ("-", "0, and 1 diverged")


def test_names_are_shown_letter_by_letter(tmp_path):
    for letters in ("a|b", "<b>", "*a*", "`a`", "[a](b)", "_a_"):
        (tmp_path / "more.jsonl").write_text(json.dumps(result() | {"condition": letters}))
        head, *_, row = docs_tables.of_runs(tmp_path)["frequency"].splitlines()
        assert len(re.findall(r"(?<!\\)\|", row)) == head.count("|")
        assert letters not in row
        assert letters in row.replace("\\", "")


def test_a_table_of_the_paper_has_a_column_for_each_network_beside_the_papers(digits):
    table = paper_table(digits)
    assert table.head == ["recordings", "", "CNN", "paper", "BN-LSTM", "paper", "Phased LSTM", "paper"]
    lines = {row[1]: row[2:] for row in table.rows if not row[0]}
    assert lines["accuracy after epoch 1"][1::2] == ["73.81 ± 3.50 %", "40.87 ± 13.30 %", "90.32 ± 2.30 %"]
    assert lines["tested at rho 0.4"][1::2] == ["90.67 ± 0.30 %", "94.79 ± 0.03 %", "95.11 ± 0.20 %"]
    cnn = next(group for group in digits if group.model == "cnn")
    assert lines["accuracy after epoch 1"][0] == percent([run.curve[0].test for run in cnn.records])
    assert lines["tested at rho 1.0"][0] == percent([run.evaluations["rho 1"].test for run in cnn.records])
    assert lines["updates per unit at rho 0.75"][::2] == ["-", "3140", "159"], "a network without steps has none"

    trained = "on real recordings, trained on simulated"
    assert list(dict.fromkeys(row[0] for row in table.rows)) == ["", f"{trained} ones alone", f"{trained} and real ones"]
    (line,) = (row for row in table.rows if row[0].endswith("and real ones") and row[1].endswith("rho 1.0"))
    (real,) = (group for group in digits if group.study == "nmnist-real")
    numbers = [record.evaluations["real, rho 1"].test for record in real.records]
    assert line[2:] == ["-", "-", "-", "-", percent(numbers), "-"]


def test_numbers_that_no_run_has_make_no_row():
    lines = [result("nmnist", model, "simulated") for model in ("cnn", "bn-lstm", "phased")]
    for line in lines:
        line["evaluations"] = {name: line["evaluations"][name] for name in ("rho 0.75", "rho 1")}
    table = paper_table(grouped(*lines))
    assert table.head[0] == ""
    assert [row[0] for row in table.rows] == [
        "accuracy after epoch 1",
        "trained and tested at rho 0.75",
        "tested at rho 1.0",
        "updates per unit at rho 0.75",
    ]
    assert paper_table(grouped(result("nmnist", "phased", "simulated", study="nmnist-best", variant="x"))) is None
    assert paper_table(grouped(result())) is None
    assert further_tests(grouped(result())) is None


def test_further_tests_have_a_row_for_each_group(digits):
    table = further_tests(digits)
    assert table.head[:2] + table.head[-1:] == ["condition", "network", "seeds"]
    assert [row[1] for row in table.rows] == [group.label for group in digits]
    for name, cell in zip(table.head[2:-1], table.rows[0][2:-1], strict=True):
        tests = [run.evaluations[name].test for run in digits[0].records if name in run.evaluations]
        assert cell == (percent(tests) if tests else "-")


@pytest.mark.parametrize(
    "number, metric, quantity, text",
    [
        (Printed(0.9728, 0.001), "accuracy", "metric", "97.28 ± 0.10 %"),
        (Printed(0.5), "accuracy", "metric", "50.00 %"),
        (Printed(0.98, above=True), "accuracy", "metric", "> 98.00 %"),
        (Printed(0.00123, 0.0001), "error", "metric", "0.0012 ± 0.0001"),
        (Printed(159, 2.8), "accuracy", "updates", "159 ± 2.8"),
        (Printed(159, 0.0), "accuracy", "updates", "159"),
        (None, "accuracy", "metric", "-"),
    ],
)
def test_a_number_is_printed_with_its_unit(number, metric, quantity, text):
    assert printed(number, metric, quantity) == text


def test_the_cost_counts_a_run_on_every_machine_it_was_made_on():
    here, there = result(epochs=3), result(epochs=4)
    there["machine"] = {"device": "Made-up GPU"}
    table = costs(records(here, there))
    assert [(row[0].rpartition(", paper scale, ")[2], *row[2:]) for row in table.rows] == [
        ("Made-up CPU, 2 cores", "1", "5 s", "15 s", "15 s"),
        ("Made-up GPU", "1", "5 s", "20 s", "20 s"),
    ]


def test_every_table_of_the_documents_is_on_the_page(made, report):
    text = visible(report.text)
    for table in made.values():
        for row in cells(table.replace("\\", "")):
            assert " ".join(filter(None, row[1:])) in text
