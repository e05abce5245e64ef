"""`phased fit`, `predict` and `score`: what they print, what they write, and how they fail."""

import csv
import json
import shutil

import numpy as np
import pytest

from patients import long_table, patients, write
from phased.estimator import Events, PhasedClassifier

QUICK = ("--epochs", "2", "--device", "cpu")
X, Y = patients(30)


@pytest.fixture
def table(folder):
    return folder / "t.csv"


@pytest.fixture
def labels(folder):
    return folder / "l.csv"


@pytest.fixture
def fit(works, tmp_path):
    """Fit a model into a folder."""

    def made(name, *arguments):
        works("fit", *arguments, *QUICK, "--out", tmp_path / name)
        return tmp_path / name

    return made


def test_the_three_commands_from_a_table_to_scores(works, table, labels, folder, tmp_path):
    works("predict", folder / "m", table, "--out", tmp_path / "risk.csv")
    rows = list(csv.reader((tmp_path / "risk.csv").read_text().splitlines()))
    assert rows[0] == ["id", "0", "1"]
    assert [row[0] for row in rows[1:]] == X.ids.tolist()
    given = np.array([row[1:] for row in rows[1:]], float)
    assert np.allclose(given.sum(1), 1.0)

    scored = works("score", folder / "m", table, "--labels", labels, "--json")
    found = json.loads(scored.stdout)
    assert {"auroc", "auprc", "sequences"} <= found.keys()
    assert found["sequences"] == 30
    model = PhasedClassifier.load(folder / "m")
    events = Events.read(table, like=model.table_.settings)
    assert np.allclose(model.predict_proba(events), given)
    assert found["auroc"] == pytest.approx(model.evaluate(events, Y)["auroc"])
    assert "sequences  30" in works("score", folder / "m", table, "--labels", labels).stdout


def test_columns_may_have_other_names_and_the_seed_decides(works, fit, tmp_path):
    table = write(tmp_path / "t.csv", ["who", "when", "what", "much"], long_table(X, missing=-9.0))
    labels = write(tmp_path / "l.csv", ["patient", "died"], zip(X.ids, Y, strict=True))
    columns = ("--id", "who", "--time", "when", "--variable", "what", "--value", "much", "--missing", "-9", "--unit", "h")
    targets = ("--labels", labels, "--labels-id", "patient", "--target", "died")
    risks = []
    for seed, name in ((1, "a"), (2, "b")):
        model = fit(name, table, *targets, *columns, "--seed", seed)
        works("predict", model, table, "--out", tmp_path / f"{name}.csv")
        risks.append((tmp_path / f"{name}.csv").read_text())
    assert risks[0] != risks[1]
    scored = works("score", tmp_path / "a", table, *targets, "--json")
    assert json.loads(scored.stdout)["sequences"] == 30


def test_targets_that_are_numbers(works, fit, table, tmp_path):
    fractions = write(tmp_path / "f.csv", ["id", "target"], zip(X.ids, Y + 0.25, strict=True))
    model = fit("numbers", table, "--labels", fractions, "--unit", "h")
    works("predict", model, table, "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "id,prediction"
    scored = json.loads(works("score", model, table, "--labels", fractions, "--json").stdout)
    assert {"r2", "rmse", "mae", "sequences"} == scored.keys()


@pytest.mark.parametrize(
    "model, changes, message",
    [
        ("m", ("--unit", "min"), "unit"),
        ("m", ("--labels", "nowhere.csv"), "nowhere.csv"),
        ("m", ("--id", "patient"), "patient"),
        ("nowhere", (), "there is no folder"),
        ("m", ("--labelled", "--labels-time", "time"), "--labelled is for a target per sequence"),
    ],
)
def test_what_does_not_fit_is_one_line_and_no_traceback(call, folder, table, labels, model, changes, message):
    result = call("score", folder / model, table, "--labels", labels, *changes)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_intensive_care_stays_in_their_own_layout(fit, physionet, tmp_path):
    """150 real stays of PhysioNet 2012, as the challenge distributes them."""
    (tmp_path / "some").mkdir()
    for file in sorted((physionet / "set-a").glob("*.txt"))[:150]:
        shutil.copy(file, tmp_path / "some")
    arguments = ("--labels", physionet / "Outcomes-a.txt", "--labelled", "--target", "In-hospital_death", "--unit", "h")
    model = fit("model", tmp_path / "some", *arguments, "--merge", "mean")
    assert {"Age", "Gender", "Height", "ICUType"} <= set(PhasedClassifier.load(model).columns_.statics)


def test_a_variable_that_the_model_does_not_know_is_left_out_as_the_message_says(call, works, folder, table, labels, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text(table.read_text() + f"{X.ids[0]},{X.time[0]},drop=['id='],1\n")
    assert """got "drop=['id=']", first""" in call("predict", folder / "m", more, "--out", tmp_path / "risk.csv").stderr
    more.write_text(table.read_text() + f"{X.ids[0]},{X.time[0]},NEW,1\n")
    said = call("predict", folder / "m", more, "--out", tmp_path / "risk.csv")
    assert said.exit_code == 1
    assert "Leave them out (drop: 'NEW')." in said.stderr
    works("predict", folder / "m", more, "--out", tmp_path / "risk.csv", "--drop", "NEW")
    works("score", folder / "m", more, "--labels", labels, "--drop", "NEW")


def test_sequences_without_a_label_are_left_out_if_asked_for(call, works, fit, table, labels, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("".join(labels.read_text().splitlines(keepends=True)[:21]) + "stranger,1\n")
    said = call("fit", table, "--labels", few, "--unit", "h", "--out", tmp_path / "model", *QUICK)
    assert said.exit_code == 1
    assert "`labelled` keeps the sequences that have both." in said.stderr
    model = fit("model", table, "--labels", few, "--labelled", "--unit", "h")
    found = works("score", model, table, "--labels", few, "--labelled", "--json")
    assert json.loads(found.stdout)["sequences"] == 20


def test_a_score_remembers_the_labels_of_the_fit_and_predictions_have_the_times_of_the_table(call, works, fit, tmp_path):
    """Dates as text, several rows at one time, text, and events without a target."""
    rows = [
        [f"p{n}", f"2024-03-0{1 + step // 2} 14:30", "up" if (n + step) % 3 else "down", n * step]
        for n in range(24)
        for step in range(6)
    ]
    table = write(tmp_path / "t.csv", ["who", "when", "state", "x"], rows)
    grades = [[row[0], row[1], ["", "low", "high"][number % 3]] for number, row in enumerate(rows)][:-2]
    labels = write(tmp_path / "l.csv", ["person", "at", "grade"], grades)
    more = ("--labels", labels, "--labels-id", "person", "--labels-time", "at", "--target", "grade")
    model = fit("model", table, *more, "--id", "who", "--time", "when", "--unit", "d")
    assert "- state: down, up" in (model / "README.md").read_text()
    scored = works("score", model, table, "--labels", labels, "--json")
    assert scored.stdout == works("score", model, table, *more, "--json").stdout
    works("predict", model, table, "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        answers = list(csv.reader(file))
    assert answers[0] == ["id", "time", "high", "low"]
    assert [row[:2] for row in answers[1:]] == [row[:2] for row in rows]
    for option, name, message in (
        ("--labels-time", "nowhere", "'l.csv' must have the column 'nowhere' (time), got 'person', 'at', 'grade'"),
        ("--labels-id", "nowhere", "'l.csv' must have the column 'nowhere' (id), got"),
        ("--target", "person", "id and target must be two columns"),
    ):
        wrong = call("score", model, table, "--labels", labels, option, name)
        assert (wrong.exit_code, message in wrong.stderr) == (1, True)


def test_targets_from_the_table_need_no_labels_and_the_score_remembers_them(call, works, tmp_path):
    steps = [(n, hour, hour % 3 + n % 2 / 2, ("up", "down")[hour % 2]) for n in range(40) for hour in range(8)]
    table, out = write(tmp_path / "t.csv", ["id", "time", "x", "state"], steps), tmp_path / "m"
    cases = [
        (("--target", "x", "--horizon", "2h"), "PhasedRegressor", 6, "rmse"),
        (("--target", "next:state"), "PhasedClassifier", 7, "accuracy"),
    ]
    for target, kind, targets, metric in cases:
        fitted = works("fit", table, *target, "--unit", "h", "--out", out, *QUICK)
        assert kind in fitted.output + (out / "README.md").read_text()
        scored = json.loads(works("score", out, table, "--json").stdout)
        assert scored == json.loads(works("score", out, table, "--json", *target).stdout)
        assert metric in scored
        events = Events.read(table, unit="h")
        y = events.future(target[1].removeprefix("next:"), *target[3:])
        assert sum(each == each and each is not None for each in y.tolist()) == 40 * targets
    labels = write(tmp_path / "l.csv", ["id", "y"], [(n, n % 2) for n in range(40)])
    refused = "targets need --labels FILE, --target next:NAME, or --target NAME --horizon TIME, got --target "
    for options, message in [
        ((), f"{refused}none."),
        (("--target", "x"), f"{refused}x."),
        (("--target", "next:x", "--horizon", "1h"), f"{refused}next:x --horizon 1h."),
        (("--horizon", "1h"), f"{refused}none --horizon 1h."),
        (("--labels", labels, "--horizon", "1h"), "--horizon is for a target from the table itself, got '1h' with --labels."),
        (("--target", "next:x", "--labels-time", "time"), "--labels-time is about a table of targets. Pass it as --labels FILE."),
        (("--target", "next:nothing"), "the target must be a variable of the table, got 'nothing'. It has 'x', 'state'."),
    ]:
        result = call("fit", table, *options, "--unit", "h", "--out", tmp_path / "none", *QUICK)
        assert result.exit_code == 1
        assert message in " ".join(result.stderr.split())


def test_a_table_may_be_read_into_a_file(works, fit, table, labels, folder, tmp_path):
    model = fit("m", table, "--labels", labels, "--unit", "h", "--store", tmp_path / "t.safetensors")
    assert (tmp_path / "t.safetensors").is_file()
    assert PhasedClassifier.load(model).table_.settings == PhasedClassifier.load(folder / "m").table_.settings
