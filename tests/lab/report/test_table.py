"""Tables of the paper's form, and of further tests."""

import pytest

from phased_lab.report import markdown
from phased_lab.report.groups import groups, spread
from phased_lab.report.table import evaluations_table, measured, paper_table, printed
from phased_lab.runs.descriptor import Printed
from records import made_up, records


def section(*lines):
    return groups(records(*lines))


def digits(seeds=3, **more):
    return [
        made_up("nmnist", model, "simulated", seed, **more) for seed in range(seeds) for model in ("cnn", "bn-lstm", "phased")
    ]


def test_a_table_has_a_column_for_each_network_beside_the_papers():
    found = section(*digits())
    head, rows, _ = paper_table(found)
    assert head == ["", "CNN", "paper", "BN-LSTM", "paper", "Phased LSTM", "paper"]
    lines = {line[0]: line[1:] for _, line in rows}
    assert list(lines)[:4] == [
        "accuracy after epoch 1",
        "trained and tested at rho 0.75",
        "tested at rho 0.4",
        "tested at rho 1.0",
    ]
    assert lines["accuracy after epoch 1"][1::2] == ["73.81 ± 3.50 %", "40.87 ± 13.30 %", "90.32 ± 2.30 %"]
    assert lines["tested at rho 0.4"][1::2] == ["90.67 ± 0.30 %", "94.79 ± 0.03 %", "95.11 ± 0.20 %"]
    cnn = next(group for group in found if group.model == "cnn")
    first = spread(record.curve[0].test for record in cnn.records)
    assert lines["accuracy after epoch 1"][0] == f"{100 * first.mean:.2f} ± {100 * first.deviation:.2f} %"
    most = spread(record.evaluations["rho 1"].test for record in cnn.records)
    assert lines["tested at rho 1.0"][0] == f"{100 * most.mean:.2f} ± {100 * most.deviation:.2f} %"


def test_updates_are_counted_per_unit_and_a_network_without_steps_has_none():
    _, rows, _ = paper_table(section(*digits(seeds=1)))
    (line,) = (line for _, line in rows if line[0].startswith("updates"))
    assert line[1:] == ["-", "-", "3075", "3153", "154", "159 ± 2.8"]


def test_rows_of_another_study_have_its_runs():
    real = [made_up("nmnist", "phased", "both", seed, study="nmnist-real") for seed in range(3)]
    _, rows, _ = paper_table(section(*digits(), *real))
    headings = list(dict.fromkeys(heading for heading, _ in rows))
    trained = "on real recordings, trained on simulated"
    assert headings == ["", f"{trained} ones alone", f"{trained} and real ones"]
    (line,) = (line for heading, line in rows if heading == headings[2])
    numbers = spread(record.evaluations["real, rho 1"].test for record in records(*real))
    ours = f"{100 * numbers.mean:.2f} ± {100 * numbers.deviation:.2f} %"
    assert line == ["test recordings, rho 1.0", "-", "-", "-", "-", ours, "-"]


def test_runs_of_other_studies_are_not_beside_the_papers_numbers():
    best = [made_up("nmnist", "phased", "simulated", seed, study="nmnist-best") for seed in range(3)]
    assert paper_table(section(*best)) is None


def test_a_network_trained_on_real_recordings_is_not_among_those_trained_on_simulated_ones_alone():
    both = [made_up("nmnist", "phased", "both", seed) for seed in range(3)]
    _, rows, _ = paper_table(section(*both))
    assert {heading for heading, _ in rows} == {""}


def test_numbers_that_no_run_has_make_no_row():
    lines = digits()
    for line in lines:
        del line["evaluations"]["rho 0.4"], line["evaluations"]["real, rho 1"]
    _, rows, _ = paper_table(section(*lines))
    assert [line[0] for _, line in rows] == [
        "accuracy after epoch 1",
        "trained and tested at rho 0.75",
        "tested at rho 1.0",
        "updates per unit at rho 0.75",
    ]


def test_an_experiment_without_a_table_or_further_tests_has_none():
    assert paper_table(section(made_up())) is None
    assert evaluations_table(section(made_up())) is None


def test_further_tests_have_a_row_for_each_group():
    ratios = [made_up("nmnist", "phased", "simulated", seed, study="nmnist-ratios", ratio_on=0.2) for seed in range(2)]
    head, rows, _ = evaluations_table(section(*digits(), *ratios))
    assert head == ["network", "rho 0.4", "rho 0.75", "rho 1", "real, rho 1", "seeds"]
    assert [(heading, line[0], line[-1]) for heading, line in rows] == [
        ("trained on simulated recordings", "CNN", "3"),
        ("trained on simulated recordings", "BN-LSTM", "3"),
        ("trained on simulated recordings", "Phased LSTM, r_on 0.05", "3"),
        ("trained on simulated recordings", "Phased LSTM, r_on 0.2", "2"),
    ]


@pytest.mark.parametrize(
    "number, metric, quantity, text",
    [
        (Printed(0.9728, 0.001), "accuracy", "metric", "97.28 ± 0.10 %"),
        (Printed(0.5), "accuracy", "metric", "50.00 %"),
        (Printed(0.98, above=True), "accuracy", "metric", "> 98.00 %"),
        (Printed(0.00123, 0.0001), "error", "metric", "0.0012 ± 0.0001"),
        (Printed(159, 2.8), "accuracy", "updates", "159 ± 2.8"),
        (None, "accuracy", "metric", "-"),
    ],
)
def test_a_number_is_printed_with_its_unit(number, metric, quantity, text):
    assert printed(number, metric, quantity) == text


def test_numbers_that_are_not_finite_are_left_out_of_the_mean():
    assert measured(spread([0.5, float("nan")]), "accuracy") == "50.00 %"
    assert measured(spread([float("nan")]), "accuracy") == "-"


def test_the_documents_have_both_tables(tmp_path, put):
    made = markdown.tables(put(tmp_path, *digits()))
    lines = made["table of nmnist"].splitlines()
    assert lines[0] == "| recordings | | CNN | paper | BN-LSTM | paper | Phased LSTM | paper |"
    assert "40.87 ± 13.30 %" in lines[2]
    assert "| on real recordings, trained on simulated ones alone | test recordings, rho 1.0 |" in lines[-1]
    assert made["further tests of nmnist"].startswith(
        "| condition | network | rho 0.4 | rho 0.75 | rho 1 | real, rho 1 | seeds |"
    )


def test_the_result_of_a_cycle_is_its_last_epoch():
    (record,) = records(made_up("nmnist", "cnn", "simulated"))
    assert record.test == record.curve[-1].test
    assert record.loss == record.curve[-1].loss
